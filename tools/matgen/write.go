package matgen

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"perigee/internal/kit/file"
	"perigee/internal/kit/version"
)

const (
	metadataName = "metadata.yaml"
	filePerm     = 0o666

	// maxDense is the most ranks whose matrices are written densely unless --dense asks for it: a file of 2 MB.
	maxDense = 1 << 10

	// firstLine marks a folder that a later run may replace.
	firstLine = "# Written by perigee matgen generate, which replaces the whole folder when it writes here again.\n"
)

var matrixName = regexp.MustCompile(`^matrix_[0-9]+\.txt$`)

// The documents of metadata.yaml, which follow each other as one: the patterns are encoded one by one, since a tree
// of YAML takes 20 kB for each. As in the original, keys are sorted; below generator they stand in an order that
// reads well.
type (
	generatorDoc struct {
		Generator *generator `yaml:"generator"`
	}
	patternDocs []patternDoc
)

type patternDoc struct {
	MatrixFile string      `yaml:"matrix_file"`
	MemType    string      `yaml:"mem_type,omitempty"`
	Metadata   metadataDoc `yaml:"metadata"`
	SleepSec   float64     `yaml:"sleep_before_launch_sec"`
}

// metadataDoc is carried into the results. The original has only the ISL. A batch that moves as a whole has no batch,
// kind, layers, parts and tokens.
type metadataDoc struct {
	ArrivalSec *float64 `yaml:"arrival_sec,omitempty"`
	Batch      *int     `yaml:"batch,omitempty"`
	ISL        int64    `yaml:"isl"`
	Kind       string   `yaml:"kind,omitempty"` // kv or states
	KVBytes    int64    `yaml:"kv_bytes,omitempty"`
	Layers     string   `yaml:"layers,omitempty"`      // first to last
	MovedBytes int64    `yaml:"moved_bytes,omitempty"` // kv_bytes, or state_bytes, with copies, where there are some
	OSL        *int64   `yaml:"osl,omitempty"`
	Parts      int      `yaml:"parts,omitempty"`   // patterns of the batch
	Request    *int     `yaml:"request,omitempty"` // the first one
	Requests   int      `yaml:"requests,omitempty"`
	StateBytes int64    `yaml:"state_bytes,omitempty"`
	Tokens     string   `yaml:"tokens,omitempty"` // of a chunk: first to last
}

// generator says how the workload was made.
type generator struct {
	Assumptions map[string]string `yaml:"assumptions"`
	Model       Model             `yaml:"model_figures"`
	Options     Options           `yaml:"options"`
	Tool        string            `yaml:"tool"`
	Version     string            `yaml:"version"`
}

// Write makes the folder with matrix_0.txt, matrix_1.txt, ... and
// metadata.yaml, all of them or none. old decides about a folder that is there
// already; aside is where it went if it was set aside. If ctx ends before all
// is there, nothing is written, and the error is of the kind Interrupt.
func (w *Workload) Write(ctx context.Context, folder string, old file.Old) (aside string, err error) {
	return file.WriteDir(ctx, folder, old, func(d *file.Dir) error {
		for k, p := range w.Patterns {
			err := d.Write(fileName(k), filePerm, func(out io.Writer) error { return w.writeMatrix(out, p) })
			if err != nil {
				return err
			}
		}
		return d.Write(metadataName, filePerm, func(out io.Writer) error { return w.writeMetadata(out, folder) })
	})
}

func fileName(k int) string { return fmt.Sprintf("matrix_%d.txt", k) }

// sparse reports whether matrices are written in the sparse form.
func (w *Workload) sparse() bool {
	return w.World() > maxDense && !w.Options.Dense && !w.Options.Compat
}

func (w *Workload) writeMatrix(out io.Writer, p BatchPattern) error {
	if w.Options.Compat {
		return w.writeCompatText(out, p)
	}
	m, err := w.Matrix(p)
	if err != nil {
		return err
	}
	if w.sparse() {
		return m.WriteSparse(out)
	}
	return m.WriteText(out)
}

// writeMetadata writes metadata.yaml. The original names its matrices by
// absolute paths, and so does --compat; otherwise they are relative to
// metadata.yaml, so that the folder can be moved.
func (w *Workload) writeMetadata(out io.Writer, folder string) error {
	if _, err := io.WriteString(out, firstLine); err != nil {
		return err
	}
	prefix := ""
	if w.Options.Compat {
		absolute, err := filepath.Abs(folder)
		if err != nil {
			return err
		}
		prefix = absolute + "/"
	} else if err := encodeYAML(out, generatorDoc{w.generator()}); err != nil {
		return err
	}
	if w.Options.cut() {
		if _, err := io.WriteString(out, "sleep_from: launch\n"); err != nil {
			return err
		}
	}
	key := "traffic_patterns:\n"
	if len(w.Patterns) == 0 {
		key = "traffic_patterns: []\n"
	}
	if _, err := io.WriteString(out, key); err != nil {
		return err
	}
	for k, p := range w.Patterns {
		doc := patternDocs{{prefix + fileName(k), w.Options.MemType, w.metadata(p), p.SleepSec}}
		if err := encodeYAML(out, doc); err != nil {
			return err
		}
	}
	return nil
}

// metadata describes a pattern in metadata.yaml. With --compat there is only what the original writes, since its
// readers may refuse other keys.
func (w *Workload) metadata(p BatchPattern) metadataDoc {
	doc := metadataDoc{ISL: p.ISL}
	if w.Options.Compat {
		return doc
	}
	doc.KVBytes, doc.Request, doc.Requests = p.KVBytes, &p.FirstRequest, p.Requests
	if p.MovedBytes != p.KVBytes {
		doc.MovedBytes = p.MovedBytes
	}
	if x := p.part; x.states {
		doc.KVBytes, doc.StateBytes = 0, p.KVBytes
	}
	if x := p.part; !x.alone {
		doc.Batch, doc.Parts, doc.Kind = &p.Batch, p.parts, "kv"
		if x.states {
			doc.Kind = "states"
		}
		if !x.states && (w.Options.Layerwise || w.prefill.pp() > 1) {
			doc.Layers = fmt.Sprintf("%d to %d", x.first, x.end-1)
		}
		if !x.states && w.Options.Chunk > 0 {
			doc.Tokens = fmt.Sprintf("%d to %d", x.chunk*w.Options.Chunk, (x.chunk+1)*w.Options.Chunk-1)
		}
	}
	if w.Options.Trace != "" {
		var output int64
		for _, r := range w.Requests[p.FirstRequest : p.FirstRequest+p.Requests] {
			output += r.OutputTokens
		}
		arrival := w.arrivalSec(p)
		doc.OSL, doc.ArrivalSec = &output, &arrival
	}
	return doc
}

func (w *Workload) generator() *generator {
	return &generator{
		Assumptions: w.assumptions(), Model: w.Model, Options: w.Options,
		Tool: "perigee matgen generate", Version: version.Version,
	}
}

// assumptions says in words what the figures rest on.
func (w *Workload) assumptions() map[string]string {
	a := map[string]string{
		"ranks": "prefill ranks first; workers are consecutive ranks; inside a prefill worker the TP rank runs fastest, then the part of the sequence",
		"sleep": "sum over requests of (4 s^2 H + 16 s H^2) L / (flops * prefill_tp / prefill_dp * prefill_cp) seconds",
		"kv":    cmp.Or(w.Model.Copies, "every byte of a batch's cache is sent once"),
	}
	if w.prefill.pp() > 1 || w.Options.cut() {
		a["parts"] = "a batch moves in several patterns: by chunks of tokens, stages of the pipeline, runs of layers, each when it is prefilled; states last"
	}
	if w.Options.cut() {
		a["parts"] += "; a sleep counts from the rank's launch before it, as prefill goes on while caches move"
	}
	if w.Options.TimeScale != 1 {
		a["time_scale"] = "sleeps are scaled"
	}
	if w.Options.Scale != 1 {
		a["scale"] = "bytes of the matrices are scaled; isl, kv_bytes and sleeps are not"
	}
	if w.Options.Trace != "" {
		a["sleep"] += "; before that, the wait for the last request of the batch"
	}
	if w.Options.Trace+w.Options.ISLList == "" {
		a["draws"] = "PCG-DXSM seeded with (seed, 0), Box-Muller; truncated toward zero, then clipped to min_isl and max_isl"
	}
	return a
}

// encodeYAML writes in the block style of the original.
func encodeYAML(out io.Writer, doc any) error {
	var node yaml.Node
	if err := node.Encode(doc); err != nil {
		return err
	}
	floatsForAll(&node)
	dumper, err := yaml.NewDumper(out, yaml.WithIndent(2), yaml.WithCompactSeqIndent(), yaml.WithLineWidth(-1))
	if err != nil {
		return err
	}
	return errors.Join(dumper.Dump(&node), dumper.Close())
}

// floatsForAll spells floats so that readers of YAML 1.1, which want a point
// in every float, do not take 4e+14 for text. The digits are Python's.
func floatsForAll(node *yaml.Node) {
	for _, child := range node.Content {
		floatsForAll(child)
	}
	if node.Kind != yaml.ScalarNode || node.Tag != "!!float" {
		return
	}
	if f, err := strconv.ParseFloat(node.Value, 64); err == nil {
		node.Value = formatFloat(f)
	}
}

// formatFloat returns the shortest digits that read back as f, always with a
// point: from 1e-4 to below 1e16 as they are, otherwise with an exponent.
func formatFloat(f float64) string {
	format := byte('f')
	if size := max(f, -f); size != 0 && (size < 1e-4 || size >= 1e16) {
		format = 'e'
	}
	digits := strconv.FormatFloat(f, format, -1, 64)
	if strings.Contains(digits, ".") {
		return digits
	}
	if mantissa, exponent, found := strings.Cut(digits, "e"); found {
		return mantissa + ".0e" + exponent
	}
	return digits + ".0"
}

// earlierOutput reports whether a folder holds what an earlier run wrote and
// nothing else.
func earlierOutput(folder string) (bool, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || e.Name() != metadataName && !matrixName.MatchString(e.Name()) {
			return false, nil
		}
	}
	f, err := os.Open(filepath.Join(folder, metadataName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, int64(len(firstLine)))).ReadString('\n')
	return err == nil && line == firstLine, nil
}
