//! Charts. They draw the models, and describe them to screen readers.

mod browse;
mod canvas;
mod chart_card;
mod histogram_chart;
mod line_chart;
mod swatch;

pub(crate) use chart_card::ChartCard;
pub(crate) use histogram_chart::HistogramChart;
pub(crate) use line_chart::LineChart;
