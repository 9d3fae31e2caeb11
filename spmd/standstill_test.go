package spmd

import (
	"slices"
	"testing"
	"time"
)

// Looks that are late by less than the limit are none; the others add up by phase.
func TestStandstills(t *testing.T) {
	seen := standstills{limit: stillLimit}
	now := int64(0)
	for _, c := range []struct {
		after time.Duration
		phase string
	}{
		{lookPause, "start"}, {stillLimit - 1, "start"}, {20 * time.Second, "workload"}, {lookPause, "workload"},
		{stillLimit, "verify"}, {5 * time.Second, "workload"},
	} {
		now += c.after.Nanoseconds()
		seen.look(now, c.phase)
	}
	want := []Standstill{{"workload", (25 * time.Second).Nanoseconds()}, {"verify", stillLimit.Nanoseconds()}}
	if !slices.Equal(seen.list, want) {
		t.Errorf("got %v, want %v", seen.list, want)
	}
}

// A rank of hundreds on a CPU may only wait for its turn.
func TestLimitOfCrowdedHost(t *testing.T) {
	for ranks, want := range map[int]time.Duration{1: stillLimit, 32: stillLimit, 512: 16 * stillLimit} {
		if got := limitOf(Host{Ranks: make([]int, ranks), CPUs: 2}); got != want {
			t.Errorf("%d ranks on 2 CPUs: %v, want %v", ranks, got, want)
		}
	}
}
