package result_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"perigee/internal/fault"
	"perigee/internal/result"
)

// pattern is a text that repeats without end.
type pattern struct {
	text  string
	block string // many of it
	at    int
}

func (p *pattern) Read(b []byte) (int, error) {
	if p.block == "" {
		p.block = strings.Repeat(p.text, 1+(64<<10)/len(p.text))
	}
	n := copy(b, p.block[p.at:])
	p.at = (p.at + n) % len(p.text)
	return n, nil
}

// bombs are results of 24 MiB of JSON, all of which compress to a few kilobytes.
var bombs = map[string][2]string{
	"a string":             {`"command":["`, "x"},
	"an unknown string":    {`"future":"`, "x"},
	"an unknown list":      {`"future":[`, "[],"},
	"a name":               {`"`, "x"},
	"deep lists":           {`"values":{"x":`, "["},
	"deep objects":         {`"values":`, `{"x":`},
	"numbers":              {`"values":{"x":[`, "0,"},
	"empty patterns":       {`"patterns":[`, "{},"},
	"empty lanes":          {`"lanes":[`, "{},"},
	"empty runs":           {`"matrices":[{}],"patterns":[{}],"measurements":[`, `{},`},
	"runs before patterns": {`"measurements":[`, `{},`},
	"empty ranks":          {`"matrices":[{}],"patterns":[{}],"measurements":[{"ranks":[`, `{},`},
	"empty peers":          {`"matrices":[{}],"patterns":[{}],"measurements":[{"ranks":[{"peers":[`, `{},`},
	"cells":                {`"matrices":[{"cells":[`, `[],`},
	"metadata":             {`"patterns":[{"metadata":{"x":[`, `{},`},
	"rows":                 {`"tables":[{"rows":[`, `[0],`},
	"samples":              {`"metrics":[{"values":[`, `0,`},
	"notes":                {`"notes":[`, `"",`},
	"short words":          {`"command":[`, `"''''''''''''''''''''''''''''''''''''''''",`},
	"short texts":          {`"values":{"x":[`, `"<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<",`},
	"a phase name":         {`"phases":[{"name":"`, `x`},
	"spaces":               {`"seed":`, ` `},
	// An element that is no object is made as one all the same.
	"null patterns":     {`"patterns":[`, "null,"},
	"number metrics":    {`"metrics":[`, "0,"},
	"null lanes":        {`"lanes":[`, "null,"},
	"text lanes":        {`"lanes":[`, `"",`},
	"null matrices":     {`"matrices":[`, "null,"},
	"null tables":       {`"tables":[`, "null,"},
	"null thresholds":   {`"thresholds":[`, "null,"},
	"null storage":      {`"storage":[`, "null,"},
	"null inputs":       {`"inputs":[`, "null,"},
	"null phases":       {`"phases":[`, "null,"},
	"null clocks":       {`"clocks":[`, "null,"},
	"null notes":        {`"notes":[`, "null,"},
	"null cells":        {`"matrices":[{"cells":[`, "null,"},
	"null rows":         {`"tables":[{"rows":[`, "null,"},
	"null runs":         {`"matrices":[{}],"patterns":[{}],"measurements":[`, "null,"},
	"null ranks":        {`"matrices":[{}],"patterns":[{}],"measurements":[{"ranks":[`, "null,"},
	"null peers":        {`"matrices":[{}],"patterns":[{}],"measurements":[{"ranks":[{"peers":[`, "null,"},
	"list metrics":      {`"metrics":[`, "[],"},
	"text metrics":      {`"metrics":[`, `"",`},
	"list lanes":        {`"lanes":[`, "[],"},
	"list patterns":     {`"patterns":[`, "[],"},
	"text ranks":        {`"matrices":[{}],"patterns":[{}],"measurements":[{"ranks":[`, `"",`},
	"null lists of all": {`"values":{"x":[`, "null,"},
}

// A bomb is refused before it takes much, by everything that reads results.
func TestBombs(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes files of 24 MiB of JSON")
	}
	dir := t.TempDir()
	for name, b := range bombs {
		path := filepath.Join(dir, strings.ReplaceAll(name, " ", "_")+".json.zst")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		z, err := zstd.NewWriter(f, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
		if err != nil {
			t.Fatal(err)
		}
		body := io.MultiReader(strings.NewReader(`{"schema":"`+result.Schema+`","status":"complete","world":{"size":1},`+b[0]), io.LimitReader(&pattern{text: b[1]}, 24<<20))
		if _, err := io.Copy(z, body); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		if info, _ := f.Stat(); info.Size() > 1<<20 {
			t.Errorf("%s: %d bytes are no bomb", name, info.Size())
			continue
		}
		f.Close()
		for how, read := range map[string]func() error{
			"read": func() error { _, err := result.Read(path); return err },
			"scan": func() error {
				_, err := result.Scan(path, func(*result.Document, *result.Measurement) error { return nil })
				return err
			},
			"stream": func() error {
				text, err := result.Open(path)
				if err != nil {
					return err
				}
				defer text.Close()
				_, err = io.Copy(io.Discard, text)
				return err
			},
		} {
			err := read()
			if fault.KindOf(err) != fault.Input || fault.HintOf(err) == "" {
				t.Errorf("%s, %s: %v", name, how, err)
			}
		}
		os.Remove(path)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	const most = 512 << 20
	if m.Sys > most {
		t.Errorf("the process has taken %d MB", m.Sys>>20)
	}
	t.Logf("%d MB taken", m.Sys>>20)
}

// What perigee writes is never taken for a bomb, however repetitive.
func TestNoBombs(t *testing.T) {
	d := result.New([]string{"perigee"}, result.Scenario{Options: map[string]any{}}, 0, result.World{Size: 1})
	d.Status = result.Complete
	d.DeclareMetrics([]result.MetricDef{{Name: "own"}})
	for i := range 300_000 {
		d.AddSample("own", 1.5, int64(i)*1000)
	}
	path := filepath.Join(t.TempDir(), "r.json.zst")
	if err := d.Write(path); err != nil {
		t.Fatal(err)
	}
	if got, err := result.Read(path); err != nil || len(got.Metrics[0].Values) != 300_000 {
		t.Fatal(err)
	}
	// The most repetitive: a dense matrix whose cells are all the same.
	const ranks = 1600
	m := result.Matrix{Ranks: ranks}
	for i := range int64(ranks * ranks) {
		m.Cells = append(m.Cells, [3]int64{i / ranks, i % ranks, 65536})
	}
	d.Matrices = []result.Matrix{m}
	if err := d.Write(path); err != nil {
		t.Fatal(err)
	}
	if _, err := result.Read(path); err != nil {
		t.Errorf("a dense matrix: %v", err)
	}
	plain := filepath.Join(t.TempDir(), "r.json.gz")
	f, err := os.Create(plain)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	if _, err := io.Copy(z, io.MultiReader(strings.NewReader(`{"schema":"perigee.result/1","status":"complete","world":{"size":1},"notes":["`),
		io.LimitReader(&pattern{text: "no bomb "}, 4<<20), strings.NewReader(`"]}`))); err != nil {
		t.Fatal(err)
	}
	z.Close()
	f.Close()
	if _, err := result.Read(plain); err != nil {
		t.Errorf("4 MB of the same: %v", err)
	}
}

// A zstd stream may refer to 32 MiB of its past, which its reader keeps, and no more.
func TestWindowIsBounded(t *testing.T) {
	for window, ok := range map[int]bool{32 << 20: true, 64 << 20: false} {
		path := filepath.Join(t.TempDir(), "r.json.zst")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		z, err := zstd.NewWriter(f, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window), zstd.WithSingleSegment(false))
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(z, io.MultiReader(strings.NewReader(`{"schema":"`+result.Schema+`","status":"complete","world":{"size":1},"notes":["`),
			io.LimitReader(&pattern{text: "no bomb "}, 4<<20), strings.NewReader(`"]}`)))
		if err := errors.Join(err, z.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := result.Read(path); (err == nil) != ok || !ok && fault.KindOf(err) != fault.Input {
			t.Errorf("a window of %d MiB: %v", window>>20, err)
		}
	}
}

// Results that are each within the bounds do not fill the memory together; many real ones are no bomb.
func TestBombsTogether(t *testing.T) {
	write := func(notes int) string {
		path := filepath.Join(t.TempDir(), "r.json.zst")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		z, err := zstd.NewWriter(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(z, io.MultiReader(strings.NewReader(`{"schema":"`+result.Schema+`","status":"complete","world":{"size":1},"notes":[""`),
			io.LimitReader(&pattern{text: `,""`}, int64(3*notes)), strings.NewReader(`]}`))); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(z.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one := write(1_000_000)
	var kept result.Kept
	read := 0
	for ; read < 40; read++ {
		if _, err := kept.Read(one); err != nil {
			if fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), "together with the results before it") {
				t.Error(err)
			}
			break
		}
	}
	if read < 2 || read > 10 {
		t.Errorf("%d of them were read", read)
	}
	real := write(100)
	kept = result.Kept{}
	for range 2000 {
		if _, err := kept.Read(real); err != nil {
			t.Fatal(err)
		}
	}
}

// What is no text may take no room on the disk: it is not read for hours, and allows the text nothing.
func TestHoles(t *testing.T) {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	text := z.EncodeAll([]byte("{}"), nil)
	var member bytes.Buffer
	g := gzip.NewWriter(&member)
	g.Extra = make([]byte, 1<<16-1)
	g.Close()
	for name, file := range map[string][]byte{
		"hole.json.zst": binary.LittleEndian.AppendUint32([]byte{0x50, 0x2a, 0x4d, 0x18}, 0xfffffff0),
		"hole.json.gz":  bytes.Repeat(member.Bytes(), 17),
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "zst") {
			f.WriteAt(text, 0xfffffff8)
		}
		f.Close()
		if _, err := result.Read(path); fault.KindOf(err) != fault.Input || !strings.Contains(err.Error(), "it is far larger than its text") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
