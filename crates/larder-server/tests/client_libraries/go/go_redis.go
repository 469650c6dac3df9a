// go-redis: pipelines, transactions, WATCH, messages, scripts; and its cache.

package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-redis/cache/v9"
	"github.com/redis/go-redis/v9"
)

func goRedisCases(s *suite) {
	const name = "go-redis"
	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: s.address, Protocol: protocol})
		cases := []struct {
			name string
			run  func(context.Context, *redis.Client, string) error
		}{
			{"values", goRedisValues},
			{"Pipelined", goRedisPipelined},
			{"TxPipelined", goRedisTxPipelined},
			{"WATCH", goRedisWatch},
			{"publish and subscribe", goRedisMessages},
			{"sorted sets", goRedisSortedSets},
			{"script", goRedisScript},
			{"hashes", func(ctx context.Context, client *redis.Client, key string) error {
				added, err := client.HSet(ctx, key, "field", "value").Result()
				return equal(added, err, 1)
			}},
		}
		for _, c := range cases {
			s.test(name, protocol, c.name, func(ctx context.Context) error { return c.run(ctx, client, s.key()) })
		}
		s.survives(name, protocol, goRedisSurvivor(client, s.key()))
	}
	client := redis.NewClient(&redis.Options{Addr: s.address})
	s.test("go-redis/cache", 0, "Once", func(ctx context.Context) error { return cacheOnce(ctx, client, s.key()) })
	s.survives("go-redis/cache", 0, func(ctx context.Context) error { return cacheOnce(ctx, client, s.key()) })
}

func goRedisValues(ctx context.Context, client *redis.Client, key string) error {
	err := client.Set(ctx, key, 1, time.Minute).Err()
	count, failed := client.IncrBy(ctx, key, 41).Result()
	values, missed := client.MGet(ctx, key, key+":missing").Result()
	ttl, untimed := client.TTL(ctx, key).Result()
	iterator := client.Scan(ctx, 0, key, 0).Iterator()
	found := ""
	for iterator.Next(ctx) {
		found = iterator.Val()
	}
	_, missing := client.Get(ctx, key+":missing").Result()
	return all(err, equal(count, failed, 42), equal(values, missed, []any{"42", nil}),
		equal(ttl > 0, untimed, true), equal(found, iterator.Err(), key),
		equal(errors.Is(missing, redis.Nil), nil, true), client.Del(ctx, key).Err())
}

func goRedisPipelined(ctx context.Context, client *redis.Client, key string) error {
	replies, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, key, "text", 0)
		pipe.Incr(ctx, key)
		pipe.Get(ctx, key)
		return nil
	})
	if err == nil {
		return errNoFailure
	}
	return equal(replies[2].(*redis.StringCmd).Val(), replies[2].Err(), "text")
}

func goRedisTxPipelined(ctx context.Context, client *redis.Client, key string) error {
	var count *redis.IntCmd
	_, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, key, 41, 0)
		count = pipe.Incr(ctx, key)
		pipe.Expire(ctx, key, time.Minute)
		return nil
	})
	return equal(count.Val(), err, 42)
}

// Two goroutines count with optimistic locks; none of the increments is lost.
func goRedisWatch(ctx context.Context, client *redis.Client, key string) error {
	increment := func(tx *redis.Tx) error {
		before, err := tx.Get(ctx, key).Int()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			return pipe.Set(ctx, key, before+1, 0).Err()
		})
		return err
	}
	var group sync.WaitGroup
	results := make([]error, 2)
	for worker := range results {
		group.Add(1)
		go func() {
			defer group.Done()
			for done := 0; done < 50 && results[worker] == nil; {
				err := client.Watch(ctx, increment, key)
				if err == nil {
					done++
				} else if !errors.Is(err, redis.TxFailedErr) {
					results[worker] = err
				}
			}
		}()
	}
	group.Wait()
	total, err := client.Get(ctx, key).Int()
	return all(results[0], results[1], equal(total, err, 100))
}

func goRedisMessages(ctx context.Context, client *redis.Client, key string) error {
	subscriber := client.Subscribe(ctx, key)
	defer subscriber.Close()
	if _, err := subscriber.Receive(ctx); err != nil {
		return err
	}
	if err := subscriber.PSubscribe(ctx, key+":*"); err != nil {
		return err
	}
	if _, err := subscriber.Receive(ctx); err != nil {
		return err
	}
	one, err := client.Publish(ctx, key, "first").Result()
	two, failed := client.Publish(ctx, key+":a", "second").Result()
	if err := all(equal(one, err, 1), equal(two, failed, 1)); err != nil {
		return err
	}
	first, err := subscriber.ReceiveMessage(ctx)
	if err != nil {
		return err
	}
	second, err := subscriber.ReceiveMessage(ctx)
	if err != nil {
		return err
	}
	return all(equal(first.Payload, nil, "first"), equal(second.Pattern, nil, key+":*"))
}

func goRedisSortedSets(ctx context.Context, client *redis.Client, key string) error {
	added, err := client.ZAdd(ctx, key, redis.Z{Score: 1, Member: "a"}, redis.Z{Score: 2.5, Member: "b"}).Result()
	found, failed := client.ZRangeWithScores(ctx, key, 0, -1).Result()
	return all(equal(added, err, 2), equal(found, failed, []redis.Z{{Score: 1, Member: "a"}, {Score: 2.5, Member: "b"}}))
}

func goRedisScript(ctx context.Context, client *redis.Client, key string) error {
	add := redis.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
	first, err := add.Run(ctx, client, []string{key}, 5).Int()
	second, failed := add.Run(ctx, client, []string{key}, 5).Int()
	return all(equal(first, err, 5), equal(second, failed, 10))
}

// The client and its subscriber come back by themselves.
func goRedisSurvivor(client *redis.Client, key string) func(context.Context) error {
	messages := client.Subscribe(context.Background(), key).Channel()
	return func(ctx context.Context) error {
		receivers, err := client.Publish(ctx, key, "message").Result()
		if err := equal(receivers, err, 1); err != nil {
			return err
		}
		select {
		case message := <-messages:
			return equal(message.Payload, nil, "message")
		case <-time.After(time.Second):
			return errors.New("no message within a second")
		}
	}
}

// The value is made once.
func cacheOnce(ctx context.Context, client *redis.Client, key string) error {
	values := cache.New(&cache.Options{Redis: client})
	made := 0
	for range 2 {
		var value string
		err := values.Once(&cache.Item{Ctx: ctx, Key: key, Value: &value, TTL: time.Minute,
			Do: func(*cache.Item) (any, error) {
				made++
				return "made", nil
			}})
		if err := equal(value, err, "made"); err != nil {
			return err
		}
	}
	return all(equal(made, nil, 1), values.Delete(ctx, key), equal(values.Exists(ctx, key), nil, false))
}
