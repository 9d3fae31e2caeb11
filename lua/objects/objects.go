// Package objects has the objects that scripts carry from one module to another: a matrix that the module matrix has
// made to transfer.prepare or moe.open, a plan of transfer to a data plane, a progress bar of result to lanes.
//
// Modules do not import each other. What a module has to know of another one's objects is here: all of a Matrix, which
// two modules make and three read, and of plans and bars only what others do with them.
package objects

import (
	"strings"

	glua "github.com/yuin/gopher-lua"

	"perigee/internal/kit/fault"
	"perigee/internal/traffic/matrix"
	"perigee/internal/traffic/play"
	"perigee/lua/vm"
)

// MatrixType is the type of matrices in Lua.
const MatrixType = "perigee.matrix"

// Matrix is a matrix as scripts see it. Ranks count from 0: m[0][1] is what
// rank 0 sends to rank 1.
type Matrix struct {
	*matrix.Matrix
	file   string // where it was read, if it is still what was read
	shared bool   // plans use it: a script's next change is made to a copy
}

// NewMatrix makes a matrix for scripts. file is where it was read, "" for nowhere.
func NewMatrix(L *glua.LState, m *matrix.Matrix, file string) *glua.LUserData {
	return vm.NewUserData(L, MatrixType, &Matrix{Matrix: m, file: file})
}

// Share returns the matrix for something that needs it to stay as it is.
func (m *Matrix) Share() *matrix.Matrix {
	m.shared = true
	return m.Matrix
}

// Set changes what rank i sends to rank j.
func (m *Matrix) Set(i, j int, bytes int64) error {
	if m.shared {
		m.Matrix, m.shared = m.Clone(), false
	}
	m.file = ""
	return m.Matrix.Set(i, j, bytes)
}

// Label names the matrix in the result: by its file, without the folder.
func (m *Matrix) Label() string { return Label(m.file) }

// Label is the name of a file in the result.
func Label(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// Plain makes a list of lists of the matrix.
func (m *Matrix) Plain(most int) (plain any, values int, err error) {
	n := m.Size()
	if n*n > most {
		return nil, n * n, fault.New(fault.Script, "a matrix of %d ranks is too large to be sent or stored as a table", n)
	}
	rows := make([]any, n)
	for i := range rows {
		row := make([]any, n)
		for j := range row {
			row[j] = m.At(i, j)
		}
		rows[i] = row
	}
	return rows, n * n, nil
}

// PlanObject is a plan of transfer.prepare.
type PlanObject interface {
	// Prepared is the load with its memory and connections, which others may run.
	Prepared() *play.LoadPlan
}

// Progress is a progress bar. Its methods are safe for several goroutines.
type Progress interface {
	// AddBytes counts MiB.
	AddBytes(n int64)
	// Add counts units that are done, and seconds of those known beforehand that are over.
	Add(units int, seconds float64)
}
