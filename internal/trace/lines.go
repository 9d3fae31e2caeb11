package trace

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"perigee/internal/kit/fault"
	"perigee/internal/kit/jsonkeys"
)

// The formats that say the unit of their timestamps, and the others.
const (
	mooncake  = "Mooncake JSON lines"
	sessions  = "Mooncake JSON lines with sessions"
	bailian   = "Bailian JSON lines"
	dynamo    = dynamoSchema + " JSON lines"
	burstGPT  = "BurstGPT CSV"
	azure     = "Azure CSV"
	otherCSV  = "CSV"
	otherJSON = "JSON lines"
)

// blockTokens are the tokens of a hash id, but for the last one of a prompt.
var blockTokens = map[string]int64{mooncake: 512, sessions: 512, bailian: 16}

// addLine takes a line that is not blank. The first one decides the format.
func (c *collector) addLine(text []byte) error {
	switch {
	case c.header != nil:
		return c.addRecord(text)
	case c.format == "" && text[0] != '{' && text[0] != '[': // no header begins like that
		return c.readHeader(text)
	}
	return c.addObject(text)
}

// addObject takes a line of JSON. The values are read from their text, which is exact.
func (c *collector) addObject(text []byte) error {
	if c.format == dynamo || c.format == "" && isDynamo(text) {
		return c.addDynamo(text)
	}
	clear(c.object)
	if err := json.Unmarshal(text, &c.object); err != nil {
		return notObject(err)
	}
	if err := once(text); err != nil {
		return err
	}
	_, bailians := c.object["chat_id"]
	session := valueText(c.object["session_id"])
	switch {
	case c.format != "":
	case bailians:
		c.format, c.unit = bailian, "s"
	case c.object["timestamp"] != nil && c.object["input_length"] != nil:
		c.format, c.unit = mooncake, "ms"
	default:
		c.format = otherJSON
	}
	c.anyOrder = c.anyOrder || c.format == mooncake && session != ""
	var values [contents]field
	for content := range contents {
		var err error
		if values[content], err = c.value(content); err != nil {
			return err
		}
	}
	ids, err := parseIDs("hash_ids", valueText(c.object["hash_ids"]))
	if err != nil {
		return err
	}
	if c.anyOrder && session != "" {
		return c.addTurn(session, values, ids)
	}
	if values[timestamps].text == "" {
		return missing(values[timestamps].name)
	}
	return c.add(values[timestamps], values[inputs], values[outputs], ids)
}

// notObject is the error of a line that encoding/json does not take.
func notObject(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fault.New(fault.Input, "wanted a JSON object of a request, got %s%s", e.Value,
			strings.TrimSuffix(" as "+e.Field, " as "))
	}
	return fault.New(fault.Input, "wanted a JSON object: %w", err).WithHint("wanted each request as an object on one line")
}

// once refuses an object that has a key twice, of which the last would count in silence.
func once(text []byte) error {
	if key, _ := jsonkeys.Twice(text); key != "" {
		return fault.New(fault.Input, "the key %s is there twice: wanted it once", short(key))
	}
	return nil
}

func missing(key string) error { return fault.New(fault.Input, "the key %s is missing", key) }

// value finds what counts in an object. The first key that holds it holds it in all lines, and those of Mooncake come
// before others. Only outputs, and timestamps of turns, may be missing.
func (c *collector) value(content int) (field, error) {
	if c.keys[content] == "" {
		key, unit, err := c.findKey(content)
		if err != nil {
			return field{}, err
		}
		c.keys[content] = key
		if content == timestamps {
			c.named = unit
		}
	}
	f := field{cmp.Or(c.keys[content], plainKeys[content]), valueText(c.object[c.keys[content]])}
	if f.text == "" && content == inputs {
		return f, missing(f.name)
	}
	if content == timestamps && strings.HasPrefix(f.text, `"`) {
		var date string
		if err := json.Unmarshal([]byte(f.text), &date); err == nil {
			if _, ok := parseDate(date); ok {
				f.text = date
			}
		}
	}
	return f, nil
}

// plainKeys are those of Mooncake.
var plainKeys = [contents]string{timestamps: "timestamp", inputs: "input_length", outputs: "output_length"}

// findKey finds the key of a line that holds a content, and the unit that it names; "" if there is none.
func (c *collector) findKey(content int) (key, unit string, err error) {
	if c.object[plainKeys[content]] != nil {
		return plainKeys[content], "", nil
	}
	for name := range c.object {
		plain, u := splitName(name)
		switch {
		case !strings.Contains(columns[content], " "+plain+" "):
		case key != "":
			return "", "", fault.New(fault.Input, "the keys %s and %s hold the same: wanted one of them", min(key, name),
				max(key, name))
		default:
			key, unit = name, u
		}
	}
	return key, unit, nil
}

// valueText is the text of a value, or "" of one that is not there.
func valueText(raw json.RawMessage) string {
	if string(raw) == "null" {
		return ""
	}
	return string(raw)
}

// parseIDs reads a JSON list of numbers. encoding/json would take null for 0, which is the id of a block.
func parseIDs(key, text string) ([]uint64, error) {
	if text == "" {
		return nil, nil
	}
	inner, isList := strings.CutPrefix(strings.TrimSuffix(text, "]"), "[")
	if isList && strings.TrimSpace(inner) == "" {
		return []uint64{}, nil
	}
	ids := make([]uint64, 0, 1+strings.Count(inner, ","))
	for id := range strings.SplitSeq(inner, ",") {
		id = strings.TrimSpace(id)
		n, err := strconv.ParseUint(id, 10, 64)
		if err != nil || !isList {
			return nil, fault.New(fault.Input, "%s: wanted a list of whole numbers from 0 to 2^64-1, got %s", key,
				short(id))
		}
		ids = append(ids, n)
	}
	return ids, nil
}

// What a column can hold.
const (
	timestamps = iota
	inputs
	outputs
	contents
)

// columns are the names that columns have, in small letters and without what stands between their words.
var columns = [contents]string{
	timestamps: " timestamp time createdtime ts arrival arrivaltime arrivaltimestamp arrivedat ",
	inputs: " inputlength inputlen inputsize inputtokens inputtoks promptlength promptlen promptsize prompttokens " +
		"prompttoks contexttokens requesttokens numprefilltokens isl ",
	outputs: " outputlength outputlen outputsize outputtokens outputtoks responselength responsetokens " +
		"completiontokens generatedtokens numdecodetokens osl ",
}

// unitWords are the words for units behind the name of a column.
var unitWords = map[string]string{
	"s": "s", "sec": "s", "secs": "s", "seconds": "s", "ms": "ms", "msec": "ms", "millis": "ms", "milliseconds": "ms",
	"us": "us", "usec": "us", "micros": "us", "microseconds": "us",
	"ns": "ns", "nsec": "ns", "nanos": "ns", "nanoseconds": "ns",
}

// splitName splits a column's name into one as in columns and a unit, or "".
func splitName(name string) (plain, unit string) {
	between := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	words := strings.FieldsFunc(strings.ToLower(name), between)
	if last := len(words) - 1; last > 0 && unitWords[words[last]] != "" {
		words, unit = words[:last], unitWords[words[last]]
	}
	return strings.Join(words, ""), unit
}

// readHeader finds the columns, and what they say of the format.
func (c *collector) readHeader(text []byte) error {
	names, err := c.record(text)
	if err != nil {
		return err
	}
	c.format, c.place = otherCSV, [contents]int{-1, -1, -1}
	for i, name := range names {
		c.header = append(c.header, field{name: short(name)})
		plain, unit := splitName(name)
		named := func(names string) bool { return strings.Contains(names, " "+plain+" ") }
		content := slices.IndexFunc(columns[:], named)
		switch {
		case content < 0:
			continue
		case c.place[content] >= 0:
			return fault.New(fault.Input, "the columns %s and %s hold the same: wanted one of them",
				c.header[c.place[content]].name, short(name))
		case plain == "contexttokens":
			c.format = azure
		case plain == "requesttokens":
			c.format = burstGPT
		case content == timestamps:
			c.named = unit
		}
		c.place[content] = i
	}
	if c.format == burstGPT {
		c.unit = "s"
	}
	if c.place[timestamps] < 0 || c.place[inputs] < 0 {
		return fault.New(fault.Input, "wanted JSON objects, or a header with columns such as timestamp and input_length, got %s",
			short(string(text)))
	}
	return nil
}

func (c *collector) addRecord(text []byte) error {
	record, err := c.record(text)
	if err != nil {
		return err
	}
	if len(record) != len(c.header) {
		return fault.New(fault.Input, "wanted %d columns, as in the header, got %d", len(c.header), len(record))
	}
	for i := range record {
		c.header[i].text = record[i]
	}
	var output field
	if c.place[outputs] >= 0 {
		output = c.header[c.place[outputs]]
	}
	return c.add(c.header[c.place[timestamps]], c.header[c.place[inputs]], output, nil)
}

// record splits a line. So a quotation mark that is never closed ends with its line, not with the file.
func (c *collector) record(text []byte) ([]string, error) {
	c.text.Reset(bytes.NewReader(text))
	r := csv.NewReader(&c.text)
	r.TrimLeadingSpace = true
	record, err := r.Read()
	if err != nil {
		if e, ok := errors.AsType[*csv.ParseError](err); ok {
			err = e.Err // without its place, whose line is always the first
		}
		return nil, fault.New(fault.Input, "wanted CSV: %w", err)
	}
	for i, text := range record {
		record[i] = strings.TrimSpace(text)
	}
	return record, nil
}
