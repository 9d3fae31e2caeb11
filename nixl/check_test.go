package nixl

import (
	"testing"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Mem{"dram": DRAM, "CPU": DRAM, "Vram": VRAM, "cuda": VRAM} {
		if got, err := ParseMem(text); err != nil || got != want {
			t.Errorf("ParseMem(%q) = %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]Op{"write": Write, "READ": Read} {
		if got, err := ParseOp(text); err != nil || got != want {
			t.Errorf("ParseOp(%q) = %v, %v", text, got, err)
		}
	}
	if _, err := ParseMem("disk"); err == nil {
		t.Error("memory disk is no error")
	}
	if _, err := ParseOp("swap"); err == nil {
		t.Error("operation swap is no error")
	}
}

// TestCheck compares Check with the definition, in arithmetic that cannot overflow.
func TestCheck(t *testing.T) {
	number := rapid.OneOf(rapid.Int64Range(-3, 40), rapid.SampledFrom([]int64{1<<63 - 1, -1 << 63, 1 << 62}))
	rapid.Check(t, func(t *rapid.T) {
		local, remote := rapid.Int64Range(0, 30).Draw(t, "local"), rapid.Int64Range(0, 30).Draw(t, "remote")
		desc := rapid.Custom(func(t *rapid.T) Desc { return Desc{number.Draw(t, "off"), number.Draw(t, "len")} })
		tr := Transfer{Local: rapid.SliceOfN(desc, 0, 3).Draw(t, "here"),
			Remote: rapid.SliceOfN(desc, 0, 3).Draw(t, "there")}
		if rapid.Bool().Draw(t, "alike") {
			tr.Remote = append([]Desc{}, tr.Local...)
		}
		good := len(tr.Local) == len(tr.Remote) && len(tr.Local) > 0
		inside := func(d Desc, size int64) bool {
			return d.Len >= 1 && d.Off >= 0 && d.Len <= size && d.Off <= size && d.Off+d.Len <= size
		}
		for k := range tr.Local {
			good = good && inside(tr.Local[k], local) && inside(tr.Remote[k], remote) &&
				tr.Local[k].Len == tr.Remote[k].Len
		}
		if err := tr.Check(local, remote); (err == nil) != good {
			t.Errorf("%+v in %d and %d bytes: got %v, want good = %v", tr, local, remote, err, good)
		}
	})
}

func TestCheckAccess(t *testing.T) {
	for _, test := range []struct {
		off  int64
		n    int
		size int64
		good bool
	}{{0, 0, 0, true}, {0, 5, 5, true}, {5, 0, 5, true}, {4, 2, 5, false}, {-1, 1, 5, false}, {1<<63 - 1, 5, 5,
		false}} {
		if err := CheckAccess(test.off, test.n, test.size); (err == nil) != test.good {
			t.Errorf("%+v: got %v", test, err)
		}
	}
}

func TestTimeoutError(t *testing.T) {
	if got := (&TimeoutError{Peers: []int{1, 5}}).Error(); got != "transfer with peer 1 5 did not complete in time" {
		t.Error(got)
	}
}
