package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/must"
	"perigee/internal/result"
	"perigee/internal/result/resulttest"
)

// part is how much of each plan the tests move: the blocks of a real plan, but a few of them.
const part = 0.001

// planned is what kvbench plan says of one benchmark.
type planned struct {
	Config  string `json:"config_file"`
	Model   string `json:"model"`
	Block   int64  `json:"max_block_size"`
	Batch   int64  `json:"max_batch_size"`
	KVBench struct {
		ISLBytes int64 `json:"kv_bytes_for_isl"`
	} `json:"kvbench"`
}

// planOf plans a model with the configs that fit a pattern.
func planOf(t *testing.T, name, configs string, args ...string) []planned {
	t.Helper()
	o := harness.MustRun(t, t.TempDir(), append([]string{"kvbench", "plan", "--model", name, "--model_configs", configs, "--format", "json"}, args...)...)
	var list []planned
	must.Do(t, json.Unmarshal([]byte(o.Stdout), &list))
	return list
}

// profile runs what was planned, in part, and checks that exactly this was moved, and every byte of it. The names
// are those of the results, one for each plan.
func profile(t *testing.T, engine, name, configs string, plans []planned, names []string, args ...string) []*result.Document {
	t.Helper()
	dir := t.TempDir()
	o := harness.MustRun(t, dir, append([]string{
		"kvbench", "profile", "--model", name, "--model_configs", configs, "--engine", engine, "--scale", fmt.Sprint(part),
		"--num_iter", "2", "--warmup_iter", "1", "--check_consistency", "--result", "r.json",
	}, args...)...)
	var docs []*result.Document
	for i, p := range plans {
		doc := resulttest.Check(t, filepath.Join(dir, names[i]))
		batch := max(1, int64(float64(p.Batch)*part+1e-6))
		harness.Contains(t, "stdout", o.Stdout, fmt.Sprintf("# kvbench profile: %s, %s: ", p.Model, p.Config))
		if len(doc.Lanes) != 1 {
			t.Fatalf("%s: %d measurements, want 1", p.Config, len(doc.Lanes))
		}
		m := doc.Lanes[0]
		if m.BlockBytes != p.Block || m.Batch != batch || m.Bytes != 2*p.Block*batch || doc.Engine.Name != engine || doc.Status != result.Complete {
			t.Errorf("%s: %d bytes in batches of %d x %d on %s, %s; want 2 batches of %d x %d on %s", p.Config, m.Bytes, m.Batch, m.BlockBytes, doc.Engine.Name, doc.Status, batch, p.Block, engine)
		}
		docs = append(docs, doc)
	}
	if got, want := len(harness.Names(dir)), len(plans); got != want || strings.Count(o.Stdout, "# note: checked: every byte") != want {
		t.Errorf("%q are there after %d runs:\n%s", harness.Names(dir), want, o.Stdout)
	}
	return docs
}

// A model of each family, by blocks of all layers and of one, from rank to rank.
func TestProfileModels(t *testing.T) {
	const configs = "*-tp8-pp2"
	harness.ForEngines(t, func(t *testing.T, engine string) {
		for _, name := range []string{"llama3.1-8b", "deepseek-r1", "qwen3-8b", "gpt-oss-20b"} { // one of each of KVBench's families
			t.Run(name, func(t *testing.T) {
				plans := planOf(t, name, configs)
				if len(plans) != 2 || plans[0].Config != "block-tp8-pp2" || plans[1].Config != "layer-tp8-pp2" {
					t.Fatalf("plans: %+v", plans)
				}
				for _, p := range plans {
					// Ten requests; the last block need not be full.
					if all := 10 * p.KVBench.ISLBytes; p.Block*p.Batch < all || p.Block*(p.Batch-1) >= all {
						t.Errorf("%s: %d x %d bytes are planned for a cache of %d", p.Config, p.Batch, p.Block, all)
					}
				}
				for _, doc := range profile(t, engine, name, configs, plans, []string{"r-block-tp8-pp2.json", "r-layer-tp8-pp2.json"}) {
					if m := doc.Lanes[0]; doc.World.Size != 2 || m.Op != "WRITE" || m.Local != "dram" || m.Remote != "dram" {
						t.Errorf("%d ranks, %s %s %s", doc.World.Size, m.Op, m.Local, m.Remote)
					}
				}
			})
		}
	})
}

// A model of each family, from and to files.
func TestProfileFiles(t *testing.T) {
	harness.ForEngines(t, func(t *testing.T, engine string) {
		for _, name := range []string{"deepseek-r1", "gemma2-9b", "gpt-oss-20b", "llama3.1-8b", "qwen2.5-7b"} {
			for source, op := range map[string]string{"file": "READ", "memory": "WRITE"} {
				t.Run(name+"-"+source, func(t *testing.T) {
					backend := []string{"--backend", "POSIX", "--source", source}
					plans := planOf(t, name, "layer-tp8-pp8", backend...)
					docs := profile(t, engine, name, "layer-tp8-pp8", plans, []string{"r.json"}, backend...)
					if m := docs[0].Lanes[0]; docs[0].World.Size != 1 || m.Op != op || m.Local != "dram" || m.Remote != "file" {
						t.Errorf("%d ranks, %s %s %s", docs[0].World.Size, m.Op, m.Local, m.Remote)
					}
				})
			}
		}
	})
}

// What one GPU moves takes two runs where the layers keep different numbers of tokens.
func TestProfileWindows(t *testing.T) {
	args := []string{"--accounting", "exact", "--isl", "10000"}
	plans := planOf(t, "gemma3-27b", "block-tp8-pp2", args...)
	if len(plans) != 2 || plans[0].Batch == plans[1].Batch && plans[0].Block == plans[1].Block {
		t.Fatalf("plans: %+v", plans)
	}
	profile(t, "shm", "gemma3-27b", "block-tp8-pp2", plans, []string{"r-block-tp8-pp2-1.json", "r-block-tp8-pp2-2.json"}, args...)
}
