// rueidis: its default client tracks keys and caches their values; another one speaks RESP2.

package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
)

func rueidisCases(s *suite) {
	const name = "rueidis"
	options := map[int]rueidis.ClientOption{
		2: {InitAddress: []string{s.address}, AlwaysRESP2: true, DisableCache: true},
		3: {InitAddress: []string{s.address}},
	}
	for _, protocol := range []int{2, 3} {
		var client rueidis.Client
		s.test(name, protocol, "connect", func(context.Context) (err error) {
			client, err = rueidis.NewClient(options[protocol])
			return err
		})
		if client == nil {
			continue
		}
		cases := []struct {
			name string
			run  func(context.Context, rueidis.Client, string) error
		}{
			{"values", rueidisValues},
			{"MULTI", rueidisMulti},
			{"publish and subscribe", rueidisMessages},
			{"script", rueidisScript},
		}
		for _, c := range cases {
			s.test(name, protocol, c.name, func(ctx context.Context) error { return c.run(ctx, client, s.key()) })
		}
		if protocol == 3 {
			s.test(name, protocol, "client-side cache", func(ctx context.Context) error {
				return rueidisCache(ctx, client, s.key())
			})
		}
		s.survives(name, protocol, rueidisSurvivor(client, s.key()))
	}
}

func rueidisValues(ctx context.Context, client rueidis.Client, key string) error {
	set := client.B().Set().Key(key).Value("1").Ex(time.Minute).Build()
	results := client.DoMulti(ctx, set, client.B().Incr().Key(key).Build(), client.B().Get().Key(key).Build())
	value, err := results[2].ToString()
	missing := client.Do(ctx, client.B().Get().Key(key+":missing").Build()).Error()
	return all(equal(value, err, "2"), equal(rueidis.IsRedisNil(missing), nil, true))
}

// A transaction on a connection of its own, after WATCH.
func rueidisMulti(ctx context.Context, client rueidis.Client, key string) error {
	return client.Dedicated(func(own rueidis.DedicatedClient) error {
		attempt := func(change bool, value string) error {
			if err := own.Do(ctx, own.B().Watch().Key(key).Build()).Error(); err != nil {
				return err
			}
			if change {
				if err := client.Do(ctx, client.B().Set().Key(key).Value("changed").Build()).Error(); err != nil {
					return err
				}
			}
			results := own.DoMulti(ctx, own.B().Multi().Build(), own.B().Set().Key(key).Value(value).Build(), own.B().Exec().Build())
			return results[2].Error()
		}
		lost := attempt(true, "lost")
		return all(equal(rueidis.IsRedisNil(lost), nil, true), attempt(false, "kept"))
	})
}

func rueidisMessages(ctx context.Context, client rueidis.Client, key string) error {
	received := make(chan string, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go client.Receive(ctx, client.B().Subscribe().Channel(key).Build(), func(message rueidis.PubSubMessage) {
		received <- message.Message
	})
	return eventually(func() error {
		receivers, err := client.Do(ctx, client.B().Publish().Channel(key).Message("first").Build()).AsInt64()
		if err := equal(receivers, err, 1); err != nil {
			return err
		}
		select {
		case message := <-received:
			return equal(message, nil, "first")
		case <-time.After(5 * time.Second):
			return errors.New("no message within five seconds")
		}
	})
}

func rueidisScript(ctx context.Context, client rueidis.Client, key string) error {
	add := rueidis.NewLuaScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
	first, err := add.Exec(ctx, client, []string{key}, []string{"5"}).AsInt64()
	second, failed := add.Exec(ctx, client, []string{key}, []string{"5"}).AsInt64()
	return all(equal(first, err, 5), equal(second, failed, 10))
}

// A cached value is used until somebody else writes the key.
func rueidisCache(ctx context.Context, client rueidis.Client, key string) error {
	set := func(value string) error {
		return client.Do(ctx, client.B().Set().Key(key).Value(value).Build()).Error()
	}
	get := func() rueidis.RedisResult { return client.DoCache(ctx, client.B().Get().Key(key).Cache(), time.Minute) }
	if err := all(set("old"), get().Error()); err != nil {
		return err
	}
	hit := get()
	if err := all(hit.Error(), equal(hit.IsCacheHit(), nil, true)); err != nil {
		return err
	}
	if err := set("new"); err != nil {
		return err
	}
	return eventually(func() error {
		value, err := get().ToString()
		return equal(value, err, "new")
	})
}

// What was cached before the restart is not used after it.
func rueidisSurvivor(client rueidis.Client, key string) func(context.Context) error {
	value := ""
	return func(ctx context.Context) error {
		value += "x"
		if err := client.Do(ctx, client.B().Set().Key(key).Value(value).Build()).Error(); err != nil {
			return err
		}
		return eventually(func() error {
			found, err := client.DoCache(ctx, client.B().Get().Key(key).Cache(), time.Minute).ToString()
			return equal(found, err, value)
		})
	}
}
