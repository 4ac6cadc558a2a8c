// A candidate by the leader election of client-go.
package main

import (
	"candidates/elector"

	"k8s.io/client-go/tools/leaderelection"
)

func main() {
	options := elector.Parse()
	ctx := elector.UntilSignal()
	config := leaderelection.LeaderElectionConfig{
		Lock:            options.Lock(),
		LeaseDuration:   options.Lease,
		RenewDeadline:   options.Deadline,
		RetryPeriod:     options.Retry,
		ReleaseOnCancel: options.Release,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: options.Lead,
			OnStoppedLeading: func() {},
			OnNewLeader:      func(identity string) { elector.Print("leader " + identity) },
		},
	}
	for {
		it, err := leaderelection.NewLeaderElector(config)
		elector.Check(err)
		it.Run(ctx)
		options.Wait()
		if ctx.Err() != nil || !options.Again {
			elector.Exit(ctx)
		}
	}
}
