package result

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"perigee/internal/traffic/matrix"
)

// Invocation is how the job was asked for, as far as a repetition needs it.
type Invocation struct {
	ID        string `json:"id,omitempty"` // of one job of perigee run, random
	Engine    string `json:"engine"`       // as asked for; what it became stands in Document.Engine
	TimeoutNS int64  `json:"timeout_ns,omitempty"`
	// Backend and BackendParams are what of NIXL the user has chosen.
	Backend       string            `json:"backend,omitempty"`
	BackendParams map[string]string `json:"backend_params,omitempty"`
	AllowIO       bool              `json:"allow_io,omitempty"`
	Line          string            `json:"line,omitempty"` // a rate as it was given
	Ceiling       bool              `json:"ceiling,omitempty"`
	// GPUMap and NICMap are as the user has written them.
	GPUMap string `json:"gpu_map,omitempty"`
	NICMap string `json:"nic_map,omitempty"`
}

// Module is a file that the script requires.
type Module struct {
	Name   string `json:"name"` // as the script requires it
	File   string `json:"file"` // in messages
	SHA256 string `json:"sha256"`
	Source string `json:"source"`
}

// NewModule describes a module.
func NewModule(name, file, source string) Module {
	return Module{name, file, digest([]byte(source)), source}
}

// Intact reports whether the texts of modules go with their SHA-256.
func Intact(modules []Module) bool {
	return !slices.ContainsFunc(modules, func(m Module) bool { return m != NewModule(m.Name, m.File, m.Source) })
}

func digest(text []byte) string { return fmt.Sprintf("%x", sha256.Sum256(text)) }

// Input is a file that the scenario has read: its text, or which of the matrices it held.
type Input struct {
	Path   string `json:"path"` // as the scenario named it
	SHA256 string `json:"sha256"`
	Text   string `json:"text,omitempty"`
	Matrix *int   `json:"matrix,omitempty"` // index into Matrices
}

// AddText records the text of a file that was read, once.
func (d *Document) AddText(path string, text []byte) {
	d.addInput(Input{Path: path, SHA256: digest(text), Text: string(text)})
}

// AddMatrixFile records a matrix that was read from a file, once.
func (d *Document) AddMatrixFile(path, file string, m *matrix.Matrix) {
	i := d.AddMatrix(m, file)
	d.addInput(Input{Path: path, SHA256: d.Matrices[i].SHA256, Matrix: &i})
}

func (d *Document) addInput(in Input) {
	if _, ok := d.input(in.Path, in.Matrix != nil); !ok {
		d.Inputs = append(d.Inputs, in)
	}
}

func (d *Document) input(path string, isMatrix bool) (Input, bool) {
	i := slices.IndexFunc(d.Inputs, func(in Input) bool { return in.Path == path && (in.Matrix != nil) == isMatrix })
	if i < 0 {
		return Input{}, false
	}
	return d.Inputs[i], true
}

// Text returns the text of a file that the run has read. ok is false if the result
// does not hold it. An error means that the result was tampered with.
func (d *Document) Text(path string) (text []byte, ok bool, err error) {
	in, ok := d.input(path, false)
	if !ok {
		return nil, false, nil
	}
	if sum := digest([]byte(in.Text)); sum != in.SHA256 {
		return nil, true, fmt.Errorf("the text of %s in the result does not go with its SHA-256", path)
	}
	return []byte(in.Text), true, nil
}

// MatrixFile returns the matrix that the run has read from a file, as Text returns texts.
func (d *Document) MatrixFile(path string) (m *matrix.Matrix, ok bool, err error) {
	in, ok := d.input(path, true)
	if !ok {
		return nil, false, nil
	}
	m, err = d.Matrices[*in.Matrix].restore()
	return m, true, err
}

// restore makes the matrix again, and makes sure that it is the one.
func (r Matrix) restore() (*matrix.Matrix, error) {
	if err := matrix.CheckSize(r.Ranks); err != nil {
		return nil, err
	}
	m := matrix.New(r.Ranks)
	for _, c := range r.Cells {
		if c[0] < 0 || c[1] < 0 || c[0] >= int64(r.Ranks) || c[1] >= int64(r.Ranks) {
			return nil, fmt.Errorf("a matrix of %d ranks in the result has a cell [%d, %d]", r.Ranks, c[0], c[1])
		}
		if err := m.Set(int(c[0]), int(c[1]), c[2]); err != nil {
			return nil, err
		}
	}
	if m.Digest() != r.SHA256 {
		return nil, fmt.Errorf("the cells of the matrix %.12s... in the result do not go with its SHA-256", r.SHA256)
	}
	return m, nil
}
