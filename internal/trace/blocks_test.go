package trace

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/must"
)

// TestPublished reads the two requests that Mooncake's README shows, which share 12 blocks.
func TestPublished(t *testing.T) {
	got, err := Load("testdata/mooncake.jsonl", Options{})
	must.Do(t, err)
	if err := got.CheckBlocks(); err != nil || got.BlockTokens != 512 {
		t.Errorf("blocks of %d tokens: %v", got.BlockTokens, err)
	}
	a, b := got.Requests[0].HashIDs, got.Requests[1].HashIDs
	shared := 0
	for shared < len(b) && a[shared] == b[shared] {
		shared++
	}
	if tokens := int64(shared) * got.BlockTokens; shared != 12 || tokens != 6144 {
		t.Errorf("the requests share %d blocks of %d tokens, want 12 of 6144", shared, tokens)
	}
}

func TestCheckBlocks(t *testing.T) {
	line := func(tokens int64, ids string) string {
		return fmt.Sprintf("{\"timestamp\": 0, \"input_length\": %d, \"hash_ids\": [%s]}\n", tokens, ids)
	}
	chat := `{"chat_id": 1, "timestamp": 0, "input_length": 17, "hash_ids": [1, 2]}`
	const (
		other = `{"ts": 0, "isl": 17, "hash_ids": [1, 2]}`
		first = `{"session_id": 1, "timestamp": 0, "input_length": 600, "hash_ids": [1, 2]}` + "\n"
		none  = "no power of two as --block-size fits all lines: look for requests of several traces, or cut off ids"
	)
	tests := []struct {
		text       string
		size       int64
		kind       fault.Kind
		says, hint string
	}{
		{text: "# a comment\n" + line(512, "1") + line(513, "1, 2") + line(0, "")},
		{text: chat},
		{text: dynamoLine(5, 65, 1, 64, "1, 2")},
		{text: line(65, "1, 2"), size: 64},
		{text: "time,isl\n1,2\n", size: 64},
		{text: `{"timestamp": 0, "input_length": 10}`},
		{"# a comment\n" + line(512, "1") + line(10, "1, 2"), 0, fault.Input,
			"f:3: wanted ceil(10 tokens / 512 of a block) = 1 hash ids, got 10 tokens with 2 ids", none},
		{line(10, "1, 2"), 0, fault.Input, "f:1: wanted ceil(10 tokens / 512", "all lines fit --block-size 8"},
		{line(512, "1") + line(512, "1, 2, 3, 4"), 0, fault.Input, "f:2: wanted ceil(512", none},
		{line(512, "1, 2, 3, 4, 5, 6, 7, 8") + line(65, "1, 2"), 0, fault.Input, "f:1: wanted ceil(512", "all lines fit --block-size 64"},
		{line(210, "1, 2, 3"), 0, fault.Input, "f:1: wanted ceil(210", none},
		{line(5, ""), 0, fault.Input, "f:1: wanted ceil(5 tokens / 512 of a block) = 1 hash ids, got 5 tokens with 0 ids", none},
		{line(0, "1"), 0, fault.Input, "got 0 tokens with 1 ids", none},
		{line(513, "1, 2"), 16, fault.Input, "f:1: wanted ceil(513 tokens / 16 of a block) = 33 hash ids", "all lines fit --block-size 512"},
		{chat, 512, fault.Input, "f:1: wanted ceil(17", "all lines fit --block-size 16"},
		{dynamoLine(5, 65, 1, 64, "1"), 0, fault.Input, "f:1: wanted ceil(65 tokens / 64", "all lines fit --block-size 128"},
		{other, 0, fault.Usage, "f: wanted --block-size, since its format does not say the tokens of a hash id, got none", "all lines fit --block-size 16"},
		{text: other, size: 16},
		{first + `{"session_id": 1, "delay": 0, "input_length": 1, "hash_ids": [4, 5]}`, 0, fault.Input,
			"f:2: wanted ceil(1 tokens / 512 of a block) = 1 hash ids, got 1 tokens with 2 ids", none},
		{first + `{"session_id": 1, "delay": 0, "input_length": 1, "hash_ids": [4]}`, 16, fault.Input, "f:1: wanted ceil(600 tokens / 16 of a block) = 38 hash ids", "all lines fit --block-size 512"},
	}
	for _, tt := range tests {
		got, err := read(tt.text, Options{BlockTokens: tt.size})
		must.Do(t, err)
		if err = got.CheckBlocks(); tt.says == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.text, err)
			}
			continue
		}
		if must.Fail(t, err, tt.kind, tt.says); fault.HintOf(err) != tt.hint {
			t.Errorf("%s: hint %q, want %q", tt.text, fault.HintOf(err), tt.hint)
		}
	}
}

// TestJoinTurns compares the ids of joined prompts with the tokens of which they are: the blocks of two prompts have the
// same id where everything up to their end is the same.
func TestJoinTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(1, 5).Draw(t, "size")
		var text strings.Builder
		var prompts [][]string // of each request, a name for each token
		unique := int64(1000)
		for session := range rapid.IntRange(1, 3).Draw(t, "sessions") {
			var prompt []string
			for turn := range rapid.IntRange(2, 4).Draw(t, "turns") {
				least := size // so that first turns have a whole block
				if turn > 0 {
					least = 1
				}
				input, output := rapid.Int64Range(least, 4*size).Draw(t, "input"), rapid.Int64Range(0, 2*size).Draw(t, "output")
				var ids []string
				for at := int64(0); at < input; at += size {
					n := min(size, input-at)
					id := at*10 + n // first turns begin with the same tokens
					if turn > 0 {
						unique++
						id = unique
					}
					ids = append(ids, fmt.Sprint(id))
					for k := range n {
						name := fmt.Sprintf("%d.%d", id, k)
						if turn == 0 {
							name = fmt.Sprint(at + k)
						}
						prompt = append(prompt, name)
					}
				}
				when := `"timestamp": 0`
				if turn > 0 {
					when = `"delay": 1`
				}
				fmt.Fprintf(&text, "{\"session_id\": %d, %s, \"input_length\": %d, \"output_length\": %d, \"hash_ids\": [%s]}\n", session, when,
					input, output, strings.Join(ids, ","))
				prompts = append(prompts, slices.Clone(prompt))
				for k := range output {
					prompt = append(prompt, fmt.Sprintf("out %d.%d.%d", session, turn, k))
				}
			}
		}
		got, err := read(text.String(), Options{BlockTokens: size})
		if err != nil || got.CheckBlocks() != nil {
			t.Fatalf("%v, %v", err, got.CheckBlocks())
		}
		of := func(i int) Request {
			return got.Requests[slices.IndexFunc(got.Requests, func(r Request) bool { return r.Line == i+1 })]
		}
		for i, a := range prompts {
			if got := of(i).Input; got != int64(len(a)) {
				t.Fatalf("prompt %d has %d tokens, want %d\n%s", i, got, len(a), &text)
			}
			for j, b := range prompts[:i] {
				for block := range min(len(of(i).HashIDs), len(of(j).HashIDs)) {
					x, y := a[:min((block+1)*int(size), len(a))], b[:min((block+1)*int(size), len(b))]
					if same := of(i).HashIDs[block] == of(j).HashIDs[block]; same != slices.Equal(x, y) {
						t.Fatalf("block %d of prompts %d and %d: same id %v; tokens %v, %v\n%s", block, i, j, same, x, y, &text)
					}
				}
			}
		}
	})
}
