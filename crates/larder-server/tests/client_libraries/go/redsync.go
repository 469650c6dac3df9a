// redsync: a lock on go-redis.

package main

import (
	"context"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

func redsyncCases(s *suite) {
	client := redis.NewClient(&redis.Options{Addr: s.address})
	locks := redsync.New(goredis.NewPool(client))
	s.test("redsync", 0, "lock", func(ctx context.Context) error { return lock(ctx, locks, s.key()) })
	s.survives("redsync", 0, func(ctx context.Context) error { return lock(ctx, locks, s.key()) })
}

func lock(ctx context.Context, locks *redsync.Redsync, key string) error {
	first := locks.NewMutex(key)
	second := locks.NewMutex(key, redsync.WithTries(1))
	if err := first.LockContext(ctx); err != nil {
		return err
	}
	if second.LockContext(ctx) == nil {
		return errNoFailure
	}
	extended, err := first.ExtendContext(ctx)
	if err := equal(extended, err, true); err != nil {
		return err
	}
	released, err := first.UnlockContext(ctx)
	if err := equal(released, err, true); err != nil {
		return err
	}
	return all(second.LockContext(ctx), equal(second.Until().After(time.Now()), nil, true))
}
