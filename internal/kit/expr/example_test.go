package expr_test

import (
	"fmt"
	"log"

	"perigee/internal/kit/expr"
	"perigee/internal/kit/fault"
)

type run struct {
	engine string
	ms     float64
}

// A catalogue of columns is all that a table needs to be filtered.
func Example() {
	columns := []expr.Column[run]{
		{Entry: expr.Entry{Name: "engine"}, Kind: expr.Text, Of: func(r run) expr.Cell { return expr.Words(r.engine) }},
		{Entry: expr.Entry{Name: "latency_ms", Unit: "ms"}, Of: func(r run) expr.Cell { return expr.Num(r.ms) }},
	}
	runs := expr.Language[run]{
		What: "condition", Hint: "such as latency_ms < 2s", Operand: "a column or a value", Example: "latency_ms < 2s",
		Find: func(name string, _ bool) (*expr.Column[run], error) {
			for i := range columns {
				if columns[i].Name == name {
					return &columns[i], nil
				}
			}
			return nil, fault.New(fault.Usage, "there is no column %q", name)
		},
	}
	c, err := runs.Parse("latency_ms < 1.5s && !(engine =~ '^sh')")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(c)
	fmt.Println(c.Match(run{"nixl", 20}), c.Match(run{"shm", 20}), c.Match(run{"nixl", 1600}))
	_, err = runs.Parse("latency_ms < fast")
	fmt.Println(err)
	// Output:
	// latency_ms < 1500 && !(engine =~ "^sh")
	// true false false
	// condition "latency_ms < fast", character 14: there is no column "fast"
}
