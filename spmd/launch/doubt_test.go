package launch_test

import (
	"bufio"
	"fmt"
	"os"
	"testing"

	"perigee/internal/kit/fault"
	"perigee/spmd/boot/watch"
)

func init() {
	plainRoles["report"] = func(rank int) int {
		control := os.NewFile(3, "launcher")
		bufio.NewReader(control).ReadString('\n') // the secret
		fmt.Fprintf(control, `{"is":"hello","rank":%d,"size":1}`+"\n"+`{"is":"abort","failure":{"phase":"measure","kind":%d,"cause":"the link is down"}}`+"\n", rank, fault.Engine)
		return 0
	}
}

// A failure that may be an echo is looked into. It is the job's even if all ranks are gone
// before that is done.
func TestFailureOfRanksThatAreGone(t *testing.T) {
	_, _, err := start(t, t.Context(), job(t, 1, "report"))
	f, ok := err.(watch.Failure)
	if !ok || f.Rank != 0 || f.Phase != "measure" || f.Kind != fault.Engine || f.Cause != "the link is down" {
		t.Errorf("got %#v", err)
	}
}
