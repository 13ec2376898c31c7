// What controllers do with client-go, told in lines of JSON on stdout.
//
//	informer watch    -namespace N [-selector LABELS] [-custom RESOURCE.VERSION.GROUP] -events COUNT
//	informer elect    -namespace N
//	informer list     -namespace N [-selector LABELS]
//
// `watch` follows pods, configmaps and one custom resource, says "synced", and ends after COUNT events;
// `elect` becomes the leader, and lets go; `list` reads configmaps in pages of two.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

type options struct {
	config    *rest.Config
	namespace string
	selector  string
	custom    string
	events    int
}

type line map[string]any

var modes = map[string]func(context.Context, options) error{"watch": watch, "elect": elect, "list": list}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) == 0 || modes[arguments[0]] == nil {
		return errors.New("name a mode: watch, elect or list")
	}
	flags := flag.NewFlagSet(arguments[0], flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", os.Getenv("KUBECONFIG"), "where the server is")
	seconds := flags.Int("seconds", 60, "when to give up")
	var asked options
	flags.StringVar(&asked.namespace, "namespace", "default", "where to look")
	flags.StringVar(&asked.selector, "selector", "", "which labels the objects must have")
	flags.StringVar(&asked.custom, "custom", "", "a custom resource to follow too: RESOURCE.VERSION.GROUP")
	flags.IntVar(&asked.events, "events", 1, "how many events to wait for")
	_ = flags.Parse(arguments[1:])
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	asked.config = config
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(*seconds)*time.Second)
	defer cancel()
	return modes[arguments[0]](ctx, asked)
}

// teller writes lines from many goroutines, and closes `enough` after so many events.
type teller struct {
	sync.Mutex
	left   int
	enough chan struct{}
}

func say(said line) { _ = json.NewEncoder(os.Stdout).Encode(said) }

func (t *teller) event(word, resource string, obj any) {
	t.Lock()
	defer t.Unlock()
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	about := obj.(metav1.Object)
	if t.left == 0 {
		return
	}
	say(line{"event": word, "resource": resource, "name": about.GetName(), "labels": about.GetLabels()})
	if t.left--; t.left == 0 {
		close(t.enough)
	}
}

func (t *teller) handlers(resource string) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { t.event("add", resource, obj) },
		UpdateFunc: func(_, obj any) { t.event("update", resource, obj) },
		DeleteFunc: func(obj any) { t.event("delete", resource, obj) },
	}
}

func watch(ctx context.Context, asked options) error {
	teller := &teller{left: asked.events, enough: make(chan struct{})}
	synced, start, err := build(asked, teller)
	if err != nil {
		return err
	}
	start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return errors.New("the caches did not fill in time")
	}
	teller.Lock()
	say(line{"event": "synced"})
	teller.Unlock()
	select {
	case <-teller.enough:
		return nil
	case <-ctx.Done():
		teller.Lock()
		defer teller.Unlock()
		return fmt.Errorf("%d events did not come in time", teller.left)
	}
}

// build returns what says that each handler has seen the first list, and what starts all informers.
func build(asked options, teller *teller) ([]cache.InformerSynced, func(<-chan struct{}), error) {
	typed, err := kubernetes.NewForConfig(asked.config)
	if err != nil {
		return nil, nil, err
	}
	untyped, err := dynamic.NewForConfig(asked.config)
	if err != nil {
		return nil, nil, err
	}
	narrow := func(query *metav1.ListOptions) { query.LabelSelector = asked.selector }
	factory := informers.NewSharedInformerFactoryWithOptions(
		typed, 0, informers.WithNamespace(asked.namespace), informers.WithTweakListOptions(narrow))
	custom := dynamicinformer.NewFilteredDynamicSharedInformerFactory(untyped, 0, asked.namespace, narrow)
	followed := map[string]cache.SharedIndexInformer{
		"pods":       factory.Core().V1().Pods().Informer(),
		"configmaps": factory.Core().V1().ConfigMaps().Informer(),
	}
	if resource, _ := schema.ParseResourceArg(asked.custom); resource != nil {
		followed[resource.Resource] = custom.ForResource(*resource).Informer()
	}
	var synced []cache.InformerSynced
	for resource, informer := range followed {
		registration, err := informer.AddEventHandler(teller.handlers(resource))
		if err != nil {
			return nil, nil, err
		}
		synced = append(synced, registration.HasSynced)
	}
	return synced, func(stop <-chan struct{}) { factory.Start(stop); custom.Start(stop) }, nil
}

func elect(ctx context.Context, asked options) error {
	client, err := kubernetes.NewForConfig(asked.config)
	if err != nil {
		return err
	}
	ctx, release := context.WithCancel(ctx)
	defer release()
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: asked.namespace, Name: "informer"},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: "informer"},
	}
	led := false
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: lock, ReleaseOnCancel: true,
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnNewLeader:      func(identity string) { say(line{"event": "leader", "name": identity}) },
			OnStartedLeading: func(context.Context) { led = true; release() },
			OnStoppedLeading: func() { say(line{"event": "released"}) },
		},
	})
	if !led {
		return errors.New("somebody else leads")
	}
	return nil
}

func list(ctx context.Context, asked options) error {
	client, err := kubernetes.NewForConfig(asked.config)
	if err != nil {
		return err
	}
	page := metav1.ListOptions{Limit: 2, LabelSelector: asked.selector}
	for more := true; more; more = page.Continue != "" {
		found, err := client.CoreV1().ConfigMaps(asked.namespace).List(ctx, page)
		if err != nil {
			return err
		}
		names := []string{}
		for _, each := range found.Items {
			names = append(names, each.Name)
		}
		say(line{"event": "page", "names": names, "remaining": found.RemainingItemCount})
		page.Continue = found.Continue
	}
	return nil
}
