// A candidate by the manager of controller-runtime.
package main

import (
	"context"

	"candidates/elector"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	options := elector.Parse()
	ctx := elector.UntilSignal()
	log.SetLogger(klog.Background())
	it, err := manager.New(options.Config(), manager.Options{
		LeaderElection:                      true,
		LeaderElectionResourceLockInterface: options.Lock(),
		LeaderElectionReleaseOnCancel:       options.Release,
		LeaseDuration:                       &options.Lease,
		RenewDeadline:                       &options.Deadline,
		RetryPeriod:                         &options.Retry,
		Metrics:                             server.Options{BindAddress: "0"},
	})
	elector.Check(err)
	elector.Check(it.Add(manager.RunnableFunc(func(term context.Context) error {
		options.Lead(term)
		return nil
	})))
	if err := it.Start(ctx); err != nil {
		klog.ErrorS(err, "the manager ended")
	}
	options.Wait()
	elector.Exit(ctx)
}
