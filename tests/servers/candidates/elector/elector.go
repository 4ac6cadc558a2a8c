// Package elector has the options and the output that the candidates have in common.
package elector

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Options are those of the command line.
type Options struct {
	Lease, Deadline, Retry time.Duration
	Release, Again         bool

	kubeconfig, server, token, authority string
	namespace, name, identity, ticks     string

	// Held during a term.
	leading sync.Mutex
}

// Parse reads the command line.
func Parse() *Options {
	o := &Options{}
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "file with the server and the credential")
	flag.StringVar(&o.server, "server", "", "URL of the server, without a kubeconfig")
	flag.StringVar(&o.token, "token-file", "", "file with the token for the server")
	flag.StringVar(&o.authority, "ca", "", "file with the authority of the server's certificate")
	flag.StringVar(&o.namespace, "namespace", "default", "namespace of the Lease")
	flag.StringVar(&o.name, "name", "", "name of the Lease")
	flag.StringVar(&o.identity, "identity", "", "identity of this candidate")
	flag.DurationVar(&o.Lease, "lease-duration", 15*time.Second, "how long others wait")
	flag.DurationVar(&o.Deadline, "renew-deadline", 10*time.Second, "how long a leader retries")
	flag.DurationVar(&o.Retry, "retry-period", 2*time.Second, "the time between two attempts")
	flag.BoolVar(&o.Release, "release", false, "release the Lease at the end (ReleaseOnCancel)")
	flag.BoolVar(&o.Again, "again", false, "compete again after a lost term (client-go only)")
	flag.StringVar(&o.ticks, "ticks", "", "file that gets a line every 10 ms during a term")
	flag.Parse()
	if o.name == "" || o.identity == "" || (o.server == "") == (o.kubeconfig == "") {
		fail("needs -name, -identity, and one of -server and -kubeconfig")
	}
	return o
}

// Config says how to reach the server.
func (o *Options) Config() *rest.Config {
	if o.kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
		Check(err)
		return config
	}
	return &rest.Config{
		Host:            o.server,
		BearerTokenFile: o.token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: o.authority},
	}
}

// Lock is the Lease, with the timeout of requests that client-go chooses.
func (o *Options) Lock() resourcelock.Interface {
	identity := resourcelock.ResourceLockConfig{Identity: o.identity}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, o.namespace, o.name,
		identity, o.Config(), o.Deadline)
	Check(err)
	return lock
}

// Lead acts until the context of the term is done.
func (o *Options) Lead(term context.Context) {
	o.leading.Lock()
	defer o.leading.Unlock()
	if term.Err() != nil {
		return
	}
	file, err := os.OpenFile(o.ticksOrNull(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	Check(err)
	defer file.Close()
	every := time.NewTicker(10 * time.Millisecond)
	defer every.Stop()
	Print("began")
	for term.Err() == nil {
		fmt.Fprintf(file, "%d %s\n", milliseconds(), o.identity)
		select {
		case <-every.C:
		case <-term.Done():
		}
	}
	Print("ended")
}

func (o *Options) ticksOrNull() string {
	if o.ticks == "" {
		return os.DevNull
	}
	return o.ticks
}

// Wait returns after the end of a term whose context is done.
func (o *Options) Wait() {
	o.leading.Lock()
	o.leading.Unlock()
}

// UntilSignal is a context that SIGTERM and SIGINT cancel.
func UntilSignal() context.Context {
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	return ctx
}

// Exit ends the process: with 0 after a signal, and with 1 after a lost term.
func Exit(ctx context.Context) {
	if ctx.Err() != nil {
		Print("exit signal")
		os.Exit(0)
	}
	Print("exit lost")
	os.Exit(1)
}

// Print writes an event, with a clock that all processes share, and that counts suspension.
func Print(event string) {
	fmt.Printf("%d %s\n", milliseconds(), event)
}

// Check ends the process with 2 if there is an error.
func Check(err error) {
	if err != nil {
		fail(err)
	}
}

func fail(why any) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(2)
}

func milliseconds() int64 {
	var now unix.Timespec
	Check(unix.ClockGettime(unix.CLOCK_BOOTTIME, &now))
	return now.Nano() / int64(time.Millisecond)
}
