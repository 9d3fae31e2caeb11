package kvbench

import (
	"fmt"
	"math"
	"sort"

	"perigee/internal/kit/cli"
	"perigee/internal/kit/size"
)

// capacity is how much fits into the memory of a rank.
type capacity struct {
	described
	memory   int64 // bytes
	isl      int64
	request  int64 // bytes of a request of isl tokens on the rank
	requests int64 // that fit
	tokens   int64 // of the longest request that fits alone; at maxTokens there is no end
}

// fits counts what fits into so many bytes of the fullest rank: requests of so many tokens, and the tokens of one.
// Pages count whole, states once for each request.
func (d described) fits(memory, isl int64) capacity {
	f := capacity{described: d, memory: memory, isl: isl, request: d.held(isl)}
	f.requests = memory / max(f.request, 1)
	f.tokens = int64(sort.Search(maxTokens, func(n int) bool { return d.held(int64(n)+1) > memory }))
	// A window may lie in one page more or less, so that some longer requests take less.
	for n := f.tokens + 1; n <= min(f.tokens+4*d.cache.Block, maxTokens); n++ {
		if d.held(n) <= memory {
			f.tokens = n
		}
	}
	return f
}

// held are the bytes of a request on the rank; what does not fit 63 bits is the largest number that does.
func (d described) held(tokens int64) int64 {
	if bytes, ok := d.cache.Held(tokens); ok {
		return bytes
	}
	return math.MaxInt64
}

// String says it in two lines.
func (f capacity) String() string {
	rank := "a rank"
	if f.tp > 1 {
		rank = fmt.Sprintf("a rank of tp %d", f.tp)
	}
	tokens := cli.Count(f.tokens, "token")
	if f.tokens >= maxTokens {
		tokens = "any number of tokens"
	}
	return fmt.Sprintf("# %s of %s hold %s of one request,\n# or %s of %s, which take %s each", size.Decimal(f.memory), rank,
		tokens, cli.Count(f.requests, "request"), cli.Count(f.isl, "token"), size.Exact(f.request))
}

// fields are the figures for programs.
func (f capacity) fields() fields {
	return fields{
		{"model", f.model.Name}, {"family", f.model.Family}, {"kv_cache_dtype", f.cache.DType.Name},
		{"kv_cache_dtype_by", f.cache.DTypeBy}, {"state_dtype", absent(f.cache.State)},
		{"serving", absent(string(f.cache.Serving))}, {"block", f.cache.Block},
		{"block_by", f.cache.BlockBy}, {"tp", f.tp},
		{"memory_bytes", f.memory},
		{"isl", f.isl}, {"bytes_for_isl", f.request}, {"tokens", f.tokens}, {"requests", f.requests},
	}
}
