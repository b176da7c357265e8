# Prints what groups of tasks get, with Scherzo and with the kernel's default: a line of JSON each.
set -e
echo +cpu > /sys/fs/cgroup/cgroup.subtree_control
cd /sys/fs/cgroup
mkdir -p eight two heavy light outer/four outer/eight big
echo +cpu > outer/cgroup.subtree_control
echo 400 > heavy/cpu.weight
echo 300 > big/cpu.weight
shares() {
    load=$1; shift
    for group; do set -- "$@" --group "$group"; shift; done
    printf '{"contender":"%s","load":"%s","report":%s}\n' "$contender" "$load" "$(scherzo-bench shares --seconds 4 --json "$@")"
}
for contender in scherzo default; do
    if [ $contender = scherzo ]; then scherzoctl enable; else scherzoctl disable; fi
    sleep 2
    shares nice name=normal,count=4 name=nice-10,count=4,nice=10
    shares policies name=normal,count=4 name=batch,count=4,policy=batch name=idle,count=4,policy=idle
    shares long-naps name=hogs,count=8 name=nappers,count=8,work=4ms,sleep=100us
    shares naps name=hogs,count=4 name=nappers,count=16,work=2ms,sleep=50us
    shares short-naps name=hogs,count=4 name=nappers,count=16,work=500us,sleep=20us
    shares groups name=eight,count=8,cgroup=eight name=two,count=2,cgroup=two
    shares weights name=heavy,count=4,cgroup=heavy name=light,count=4,cgroup=light
    shares nested name=big,count=4,cgroup=big name=four,count=4,cgroup=outer/four name=eight,count=8,cgroup=outer/eight
done
