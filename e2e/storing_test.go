package e2e

import (
	"syscall"
	"testing"

	"perigee/e2e/internal/harness"
	"perigee/internal/kit/fault"
)

// A job is interrupted while rank 0 gathers and writes more than it can in the time that ranks have to end: it is
// waited for, and keeps what was measured.
func TestInterruptedWhileStoring(t *testing.T) {
	t.Parallel()
	const script = `return { run = function()
		local plan = transfer.prepare { name = "mesh", matrix = matrix.all_to_all { bytes = 1 } }
		world.phase("loop")
		plan:run { iterations = 50000, record = true }
		transfer.collect { plan } -- which the other ranks leave first
		if world.rank == 1 then
			clock.sleep(0.2) -- what it has sent arrives
			print("sent")
		end
		world.barrier()
	end }`
	p := harness.Start(t, harness.Command{Dir: harness.Files(t, map[string]string{"x.lua": script}),
		Args: []string{"run", "x.lua", "-n", "3", "--engine", "shm", "--result", "r.json"}, Group: true})
	p.UntilPrints("[1] sent\n")
	harness.Signal(t, -p.Cmd.Process.Pid, syscall.SIGINT)
	o := p.Wait()
	o.Took = 0 // it may take long
	checkComplaint(t, o, fault.Interrupt, "ended by signal: interrupt")
	p.CheckNothingLeft(0)
	if n := countRuns(partial(t, p, fault.Interrupt, -1, ""), "loop"); n != 50000 {
		t.Errorf("%d runs in the partial result", n)
	}
}
