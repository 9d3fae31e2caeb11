package kvbench

import (
	"fmt"
	"io"
	"strings"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/plaintext"
	"perigee/internal/kit/sheet"
	"perigee/internal/kit/size"
	"perigee/internal/model"
)

// described is a model whose layers `kvbench models NAME` shows.
type described struct {
	model *model.Model
	whole *model.Cache
	cache *model.Cache // of one rank
	tp    int64
}

// load reads the models that the user has named, and fixes the precision of their caches.
func (c *ModelsCmd) load() ([]described, error) {
	var all []described
	for _, name := range c.Models {
		m, err := loadModel(name)
		if err != nil {
			return nil, err
		}
		whole, err := c.Flags.Cache(m, c.TP)
		if err == nil && c.TP > 1 {
			err = m.CheckTP(c.TP)
		}
		if err == nil {
			err = c.CheckPages()
		}
		if err != nil {
			return nil, err
		}
		d := described{m, whole, whole, c.TP}
		if c.TP > 1 {
			d.cache = whole.Rank(c.TP)
		}
		all = append(all, d)
	}
	return all, nil
}

// describe shows the layers of models, as text or for programs, and writes their pictures.
func (c *ModelsCmd) describe(streams cli.Streams) error {
	models, err := c.load()
	if err != nil {
		return err
	}
	if err := c.draw(models); err != nil {
		return err
	}
	if c.Format != "text" {
		var rows []fields
		for _, d := range models {
			if c.Fits > 0 {
				rows = append(rows, d.fits(int64(c.Fits), c.ISL).fields())
				continue
			}
			more, err := d.rows(c.ISL)
			if err != nil {
				return err
			}
			rows = append(rows, more...)
		}
		return finish(streams, c.Format, rows, nil)
	}
	for i, d := range models {
		if i > 0 {
			fmt.Fprintln(streams.Out)
		}
		if c.Fits > 0 {
			fmt.Fprintln(streams.Out, d.fits(int64(c.Fits), c.ISL))
		}
		if err := d.write(streams.Out, c.ISL, c.PerRank); err != nil {
			return err
		}
	}
	return nil
}

// keeps says in words what a group keeps of a request.
func keeps(g model.Group) string {
	switch {
	case g.Kind == model.SharedKV:
		return "nothing: the cache of an earlier layer"
	case g.State.Any():
		return "a state"
	case g.Fixed > 0:
		return fmt.Sprintf("%d entries of the encoder", g.Fixed)
	case g.Last > 0:
		return fmt.Sprintf("the last %d tokens", g.Last)
	case g.Every > 1:
		return fmt.Sprintf("an entry for %d tokens", g.Every)
	}
	return "all tokens"
}

// groupBytes are the bytes of one group.
type groupBytes struct {
	perToken any   // bytes of a token more; nil where it does not grow
	fixed    any   // bytes that a long request has once; nil where it grows
	request  int64 // bytes of a request
}

// of returns the bytes of group i, of a token, once, and of a request of so many tokens.
func (d described) of(i int, tokens int64) groupBytes {
	g, layers := d.cache.Model.Groups[i], int64(len(d.cache.Model.Groups[i].Layers))
	one := d.cache.EntryBytes(i) * layers
	b := groupBytes{}
	b.request, _ = d.cache.GroupBytes(i, 0, tokens, tokens)
	switch {
	case g.Kind == model.SharedKV:
	case g.State.Any():
		b.fixed = one
	case g.Fixed > 0:
		b.fixed = one * g.Fixed
	case g.Last > 0:
		b.fixed = one * g.Last
	case g.Every > 1:
		b.perToken = float64(one) / float64(g.Every)
	default:
		b.perToken = float64(one)
	}
	return b
}

// write prints the groups of a model, and their sums.
func (d described) write(out io.Writer, tokens int64, perRank bool) error {
	m, c := d.cache.Model, d.cache
	kv, state, err := c.Bytes(tokens)
	if err != nil {
		return err
	}
	head := fmt.Sprintf("# %s: %s, %s", m.Name, m.Family, cli.Count(m.Layers, "layer"))
	if m.Heads > 0 {
		head += fmt.Sprintf(", %s", cli.Count(m.Heads, "query head"))
	}
	head += "; cache in " + c.Precision()
	verb := "keeps"
	if c.Serving != model.Exact {
		verb = "moves"
	}
	head += fmt.Sprintf("\n# a request of %s %s %s", cli.Count(tokens, "token"), verb, size.Exact(kv+state))
	if d.tp > 1 {
		head += fmt.Sprintf("\n# one rank of tensor parallelism %d", d.tp)
	}
	if c.Serving != model.Exact {
		head += fmt.Sprintf("\n# as %v moves it: %s", c.Serving, c.BlockText())
	}
	if c.State != "" {
		head += "\n# " + c.States()
	}
	for _, note := range m.Notes() {
		head += "\n# note: " + note
	}
	if _, err := fmt.Fprintln(plaintext.Writer(out), head); err != nil {
		return err
	}
	t := sheet.New("", "", "|Kind", "Layers", "|Which", "|Keeps", "Bytes/token %.10g")
	t.AddColumns(sheet.Right, "", "Fixed bytes", fmt.Sprintf("Bytes of %d tokens", tokens))
	for i, g := range m.Groups {
		b := d.of(i, tokens)
		t.AddRow(string(g.Kind), len(g.Layers), g.LayerText(), keeps(g), b.perToken, scaled(b.fixed),
			sheet.Bytes(b.request))
	}
	growing, windows, states := c.TokenBytes()
	t.AddRow("all", m.Layers, nil, nil, growing, scaled(absentZero(windows+states)), sheet.Bytes(kv+state))
	if err := t.WriteText(out); err != nil || !perRank {
		return err
	}
	return d.writeRanks(out, tokens)
}

// scaled is a number of bytes with its unit for people; what is none stays as it is.
func scaled(cell any) any {
	if n, ok := cell.(int64); ok {
		return sheet.Bytes(n)
	}
	return cell
}

// The parallelisms of the table by rank.
var (
	rankTPs = []int64{1, 2, 4, 8, 16, 32}
	rankPPs = []int64{1, 2, 4, 8}
)

// writeRanks prints what the fullest rank holds of a request, by tensor and pipeline parallelism.
func (d described) writeRanks(out io.Writer, tokens int64) error {
	if _, err := fmt.Fprintf(out, "\n# bytes of a request of %d tokens on the fullest rank; - where engines refuse\n", tokens); err != nil {
		return err
	}
	t := sheet.New("", "", "TP")
	for _, pp := range rankPPs {
		t.AddColumn(fmt.Sprintf("PP %d", pp), sheet.Right, "")
	}
	for _, tp := range rankTPs {
		row := []any{tp}
		for _, pp := range rankPPs {
			row = append(row, scaled(d.fullest(tp, pp, tokens)))
		}
		t.AddRow(row...)
	}
	return t.WriteText(out)
}

// fullest returns the bytes on the rank that holds most, nil where engines refuse.
func (d described) fullest(tp, pp, tokens int64) any {
	bounds, err := model.Stages(d.model.Layers, pp, d.whole.Serving)
	if err != nil || d.model.CheckTP(tp) != nil {
		return nil
	}
	var most int64
	rank := d.whole.Rank(tp)
	for s := range pp {
		kv, state, err := rank.Stage(bounds[s], bounds[s+1]).Bytes(tokens)
		if err != nil {
			return nil
		}
		most = max(most, kv+state)
	}
	return most
}

// rows are the groups of a model for programs.
func (d described) rows(tokens int64) ([]fields, error) {
	if _, _, err := d.cache.Bytes(tokens); err != nil {
		return nil, err
	}
	var rows []fields
	for i, g := range d.cache.Model.Groups {
		b := d.of(i, tokens)
		var ids []string
		for _, l := range g.Layers {
			ids = append(ids, fmt.Sprint(l))
		}
		rows = append(rows, fields{
			{"model", d.model.Name}, {"family", d.model.Family}, {"kv_cache_dtype", d.cache.DType.Name},
			{"kv_cache_dtype_by", d.cache.DTypeBy},
			{"state_dtype", absent(d.cache.State)}, {"serving", absent(string(d.cache.Serving))},
			{"state_dtype_by", absent(d.cache.StateBy)}, {"block", d.cache.Block},
			{"block_by", d.cache.BlockBy}, {"tp", d.tp},
			{"kind", string(g.Kind)}, {"layers", len(g.Layers)}, {"layer_ids", strings.Join(ids, " ")},
			{"keeps", keeps(g)},
			{"bytes_per_entry", d.cache.EntryBytes(i)}, {"bytes_per_token", b.perToken}, {"fixed_bytes", b.fixed},
			{"isl", tokens}, {"bytes_for_isl", b.request},
		})
	}
	return rows, nil
}
