// Package dashboard shows a run that goes on, and how it ended, where dashboards look: in a text file for Prometheus'
// node_exporter, or at a collector that takes OTLP over HTTP.
//
// Begin with dashboard.go: rank 0 observes its document whenever that has grown, and a goroutine hands on the last
// figures every ten seconds, so that nothing is written or sent between two runs. figures.go decides which series there
// are: at most [MostSeries] however many ranks, patterns and phases, since a series per pair of ranks would fill the
// database of a cluster. prometheus.go and otlp.go are the two forms.
package dashboard
