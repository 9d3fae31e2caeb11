package trace

import (
	"encoding/json"

	"perigee/internal/kit/fault"
)

const dynamoSchema = "dynamo.request.trace.v1"

// dynamoRecord is a line of [dynamoSchema], as Dynamo's request tracing documents it. Some recorders wrap it as the
// event of another object.
type dynamoRecord struct {
	Event     *dynamoRecord `json:"event"`
	Schema    string        `json:"schema"`
	EventType string        `json:"event_type"`
	Request   struct {
		Received json.RawMessage `json:"request_received_ms"`
		Output   json.RawMessage `json:"output_tokens"`
		Replay   struct {
			BlockSize json.RawMessage `json:"trace_block_size"`
			Input     json.RawMessage `json:"input_length"`
			Hashes    json.RawMessage `json:"input_sequence_hashes"`
		} `json:"replay"`
	} `json:"request"`
}

func parseDynamo(text []byte) (r dynamoRecord, err error) {
	if err = json.Unmarshal(text, &r); err == nil && r.Event != nil {
		r = *r.Event
	}
	return r, err
}

// isDynamo looks at the first line of a file.
func isDynamo(text []byte) bool {
	r, err := parseDynamo(text)
	return err == nil && r.Schema == dynamoSchema
}

// addDynamo takes a line. It is written as its request ends, so arrivals may fall from line to line.
func (c *collector) addDynamo(text []byte) error {
	c.format, c.named, c.anyOrder = dynamo, "ms", true
	r, err := parseDynamo(text)
	switch {
	case err != nil:
		return notObject(err)
	case r.Schema != dynamoSchema:
		return fault.New(fault.Input, "schema: wanted %s, got %s", dynamoSchema, short(r.Schema))
	case r.EventType != "request_end":
		c.others++
		return nil
	}
	if err := once(text); err != nil {
		return err
	}
	replay := r.Request.Replay
	at := field{"request.request_received_ms", valueText(r.Request.Received)}
	block := field{"request.replay.trace_block_size", valueText(replay.BlockSize)}
	input := field{"request.replay.input_length", valueText(replay.Input)}
	hashes := field{"request.replay.input_sequence_hashes", valueText(replay.Hashes)}
	for _, f := range []field{at, block, input, hashes} {
		if f.text == "" {
			return missing(f.name)
		}
	}
	size, err := tokens(block)
	switch {
	case err != nil:
		return err
	case size == 0, c.blockTokens != 0 && size != c.blockTokens:
		return fault.New(fault.Input, "%s: wanted one size from 1 in all lines, got %d after %d", block.name, size,
			c.blockTokens)
	}
	c.blockTokens = size
	ids, err := parseIDs(hashes.name, hashes.text)
	if err != nil {
		return err
	}
	return c.add(at, input, field{"request.output_tokens", valueText(r.Request.Output)}, ids)
}
