package fault

import "testing"

func TestEveryKindHasAMeaning(t *testing.T) {
	kinds := Kinds()
	if len(kinds) != len(kindNames) || kinds[0] != Internal || kinds[len(kinds)-1] != Interrupt {
		t.Errorf("kinds: %v", kinds)
	}
	for _, k := range kinds {
		if k.Meaning() == "" {
			t.Errorf("%v has no meaning", k)
		}
	}
}
