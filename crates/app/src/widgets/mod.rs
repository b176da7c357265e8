//! Charts. They draw what the models worked out, and say it to those who do not see it.

mod browse;
mod canvas;
mod chart_card;
mod histogram_chart;
mod line_chart;
mod swatch;

pub(crate) use chart_card::ChartCard;
pub(crate) use histogram_chart::HistogramChart;
pub(crate) use line_chart::LineChart;
