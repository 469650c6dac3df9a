// All cases of the clients for Node.js.

import { finish } from "./suite.mjs";
import * as nodeRedis from "./node-redis.mjs";
import * as ioredis from "./ioredis.mjs";
import * as limits from "./limits.mjs";
import * as caches from "./caches.mjs";

for (const module of [nodeRedis, ioredis, limits, caches]) {
  await module.run();
}
await finish();
