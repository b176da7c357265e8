"""Every language, as it is installed: the command line, the tray, and what other programs read of ours."""

import json
import os
import subprocess

from stage import Stage, expect, has_owner, spawn, wait_for

# What `scherzoctl preemption` says, and the tray's entry for it.
LANGUAGES = {
    "de": ("ein", "Hintergrundarbeit unterbrechen"),
    "es": ("activada", "Interrumpir el trabajo en segundo plano"),
    "fr": ("activée", "Interrompre le travail d’arrière-plan"),
    "it": ("attiva", "Interrompi il lavoro in secondo piano"),
    "ja": ("オン", "バックグラウンドの処理を中断する"),
    "pt_BR": ("ligada", "Interromper o trabalho em segundo plano"),
    "zh_CN": ("开", "打断后台工作"),
}
POLICY = "/usr/share/polkit-1/actions/org.scherzo.Scheduler1.policy"


def said(language, *arguments):
    """What the command line prints. gettext looks for languages only where the locale is not "C"."""
    environment = os.environ | {"LANG": "de_DE.UTF-8", "LC_ALL": "de_DE.UTF-8", "LANGUAGE": language}
    command = ["/usr/bin/scherzoctl", *arguments]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True).stdout.strip()


def tray_labels(stage, language):
    """What the tray's menu shows in a language."""
    environment = os.environ | {"LANG": "de_DE.UTF-8", "LC_ALL": "de_DE.UTF-8", "LANGUAGE": language}
    process = spawn("/usr/bin/scherzo-tray", env=environment)
    name = f"org.kde.StatusNotifierItem-{process.pid}-1"
    wait_for("the tray", lambda: has_owner(stage.session, name))
    command = ["gdbus", "call", "--session", "--dest", name, "--object-path", "/MenuBar"]
    command += ["--method", "com.canonical.dbusmenu.GetLayout", "--", "0", "-1", "['label']"]
    labels = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    process.terminate()
    process.wait()
    return labels


def main():
    stage = Stage()
    stage.serve()
    stage.call("SetEnabled", "(b)", True)
    expect("without a language", subprocess.run(["scherzoctl", "preemption"], stdout=subprocess.PIPE, text=True).stdout, "on\n")
    with open(POLICY, encoding="utf-8") as file:
        policy = file.read()
    for language, (on, entry) in LANGUAGES.items():
        expect(f"preemption in {language}", said(language, "preemption"), on)
        expect(f"JSON in {language}", json.loads(said(language, "--json", "status"))["reason_text"], "It is the default; nobody chose another mode.")
        expect(f"the reason in {language}", "nobody chose" in said(language, "status"), False)
        expect(f"the tray in {language}", entry in tray_labels(stage, language), True)
        expect(f"polkit in {language}", f'xml:lang="{language}"' in policy, True)


main()
