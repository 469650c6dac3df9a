// All cases of the queues for Node.js, with their real workers.

import { finish } from "./suite.mjs";
import * as bullmq from "./bullmq.mjs";

await bullmq.run();
await finish();
