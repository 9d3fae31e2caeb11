package kvbench

import (
	"encoding/json"
	commandLine "flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"perigee/internal/kit/must"
)

var update = commandLine.Bool("update", false, "rewrite the golden files")

// movesDir has whole model files, and truth.json: what they keep, and what engines move of it, by a separate program.
const movesDir = "../../internal/model/testdata/kv-moves"

// modelTruth is what truth.json says of a file; its read_me explains the keys.
type modelTruth struct {
	KV             map[string]int64  `json:"kv_bytes"`
	KVChecked      map[string]int64  `json:"kv_bytes_checked"`
	State          int64             `json:"state_bytes"`
	Rank           map[string]*int64 `json:"fullest_rank"`
	KindsUnchecked []string          `json:"kinds_not_checked"`
	Unchecked      []string          `json:"not_checked"`
	Engines        []struct {
		Serving string
		Page    int64 `json:"page_size"`
		Block   json.RawMessage
		KV      map[string]json.RawMessage `json:"kv_bytes"`
		Unsure  string
	}
}

// states are the kinds whose bytes do not grow.
var states = strings.Fields("mamba1 mamba2 gdn kda lightning shortconv ring cca")

// rowsOf are the rows of a command's JSON.
func rowsOf(t *testing.T, line string) (rows []map[string]any) {
	t.Helper()
	must.Do(t, json.Unmarshal([]byte(mustRun(t, line+" --format json --state_dtype float32 --kv_cache_dtype bf16")), &rows))
	return rows
}

// shown are the bytes that `models` shows of a request, without those of some kinds, and the tokens of a page.
func shown(t *testing.T, line string, without []string) (kv, state, block int64) {
	t.Helper()
	for _, row := range rowsOf(t, "models "+line) {
		block = int64(row["block"].(float64))
		switch n := int64(row["bytes_for_isl"].(float64)); {
		case slices.Contains(without, row["kind"].(string)):
		case slices.Contains(states, row["kind"].(string)):
			state += n
		default:
			kv += n
		}
	}
	return kv, state, block
}

// moves are the bytes of all blocks that `kvcache` and `plan` show of one GPU, which are the same.
func moves(t *testing.T, line string) int64 {
	t.Helper()
	sum := func(command, count, size string) (sum int64) {
		for _, row := range rowsOf(t, command+" --accounting exact --access_pattern layer "+line) {
			sum += int64(row[count].(float64)) * int64(row[size].(float64))
		}
		return sum
	}
	cached, planned := sum("kvcache", "batch_size", "io_size"), sum("plan", "max_batch_size", "max_block_size")
	if cached != planned {
		t.Errorf("%s: kvcache has %d bytes, plan %d", line, cached, planned)
	}
	return cached
}

// TestTruth holds what the commands show of 25 model files against their truths, and keeps the whole table.
func TestTruth(t *testing.T) {
	text := must.Read(t, filepath.Join(movesDir, "truth.json"))
	var doc struct{ Models map[string]modelTruth }
	must.Do(t, json.Unmarshal(text, &doc))
	var table strings.Builder
	fmt.Fprintln(&table, "# Bytes in bf16, recurrences in float32. keeps: of a request of so many tokens, and its states. rank: on the fullest rank\n"+
		"# of a tensor parallelism, of 1000 tokens. vllm and so on: what an engine moves, in pages of so many tokens.")
	for _, file := range slices.Sorted(maps.Keys(doc.Models)) {
		checkFile(t, &table, file, doc.Models[file])
	}
	const golden = "testdata/moves.golden.txt"
	if *update {
		must.Do(t, os.WriteFile(golden, []byte(table.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	if diff := cmp.Diff(string(want), table.String()); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func checkFile(t *testing.T, table *strings.Builder, file string, want modelTruth) {
	t.Helper()
	path := filepath.Join(movesDir, file)
	fmt.Fprintf(table, "\n%s\n", file)
	for _, isl := range []string{"1000", "100000"} {
		kv, state, _ := shown(t, path+" --isl "+isl, want.KindsUnchecked)
		fmt.Fprintf(table, "  keeps %s: %d and %d\n", isl, kv, state)
		bytes := want.KV[isl]
		if checked, ok := want.KVChecked[isl]; ok {
			bytes = checked
		}
		if (kv != bytes || state != want.State) && !slices.Contains(want.Unchecked, isl) {
			t.Errorf("%s, %s tokens: %d and %d bytes, want %d and %d", file, isl, kv, state, bytes, want.State)
		}
	}
	for _, tp := range []string{"2", "8"} {
		if want.Rank[tp] == nil || slices.Contains(want.Unchecked, "fullest_rank") {
			continue
		}
		got := moves(t, fmt.Sprintf("--model %s --tp %s --isl 1000 --page_size 1", path, tp))
		fmt.Fprintf(table, "  rank of tp %s: %d\n", tp, got)
		if got != *want.Rank[tp] {
			t.Errorf("%s, a rank of %s: %d bytes, want %d", file, tp, got, *want.Rank[tp])
		}
	}
	for _, e := range want.Engines {
		for _, isl := range []string{"1000", "100000"} {
			options := fmt.Sprintf(" --serving %s --page-size %d --isl %s", e.Serving, e.Page, isl)
			kv, state, block := shown(t, path+options, nil)
			fmt.Fprintf(table, "  %s %s in pages of %d: %d\n", e.Serving, isl, block, kv)
			if e.Unsure != "" || e.KV[isl] == nil {
				continue
			}
			if fmt.Sprint(kv) != string(e.KV[isl]) || fmt.Sprint(block) != string(e.Block) {
				t.Errorf("%s%s: %d bytes in pages of %d, want %s in %s", file, options, kv, block, e.KV[isl], e.Block)
			}
			if got := moves(t, "--model "+path+" --tp 1"+options); got != kv+state {
				t.Errorf("%s%s: kvcache has %d bytes, models %d", file, options, got, kv+state)
			}
		}
	}
}
