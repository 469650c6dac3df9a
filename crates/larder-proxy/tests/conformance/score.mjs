// Runs http-cache-tests against a proxy: the origin and the client of the suite are both in this process.
// It prints `listening ADDRESS`, the address of the origin, and waits for a line with the URL of a proxy before it. Then it
// prints a line of JSON: for each test its id, its kind, its result by the suite's own rules, and what was observed.
import { existsSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

// As many tests at once as the suite itself runs.
const PARALLEL = 25;

// What the suite logs must not get between the two lines.
console.log = console.error;
// A proxy that never answers must not keep this process.
setTimeout(() => fail("the suite does not end"), 300_000).unref();

const fail = (message) => {
  console.error(`score.mjs: ${message}`);
  process.exit(1);
};
process.on("uncaughtException", (error) => fail(error));

// The folder of the npm package, or of a copy of the repository, where the programs are one folder deeper.
const folder = `file://${process.argv[2]}`;
const isRepository = existsSync(`${process.argv[2]}/test-engine`);
const program = (path) => import(`${folder}/${isRepository ? "test-engine/" : ""}${path}`);
const [config, test, state] = await Promise.all(
  ["config", "test", "state"].map((name) => program(`server/handle-${name}.mjs`)),
);
const { determineTestResult } = await program(isRepository ? "lib/results.mjs" : "lib/display.mjs");
const { runTests, getResults } = await program("client/runner.mjs");
const suites = (await import(`${folder}/tests/index.mjs`)).default;

const handlers = { config: config.default, test: test.default, state: state.default };
const origin = createServer((request, response) => {
  const [, name, ...path] = new URL(request.url, "http://origin").pathname.split("/");
  name in handlers ? handlers[name](path, request, response) : response.writeHead(404).end();
});
// A proxy that keeps a connection longer than its origin would see some requests fail.
origin.keepAliveTimeout = 600_000;
await new Promise((listening) => origin.listen(0, "127.0.0.1", listening));
process.stdout.write(`listening 127.0.0.1:${origin.address().port}\n`);
const { value: proxy } = await createInterface({ input: process.stdin })[Symbol.asyncIterator]().next();
if (!proxy) fail("the standard input has no URL of a proxy");

// An answer of the origin by way of the proxy, whatever it is.
await fetch(`${proxy}/state/none`).catch((error) => fail(`the proxy does not answer: ${error.cause ?? error}`));
// The package expects node-fetch: that of Node.js adds `no-cache` to what it takes for requests of a browser.
const nodeFetch = isRepository ? undefined : createRequire(`${process.argv[2]}/cli.mjs`)("node-fetch");
await runTests(suites, ...(isRepository ? [] : [nodeFetch]), false, proxy, PARALLEL);
const observed = getResults();
const results = { "✅": "pass", Y: "pass", "🔹": "setup", "⁉️": "harness", "⚪️": "dependency", "↻": "retry" };
const scores = suites
  .flatMap((suite) => suite.tests)
  .filter((test) => test.id in observed)
  .map(({ id, kind = "required" }) => {
    const result = results[determineTestResult(suites, id, observed)[2]] ?? "fail";
    return [id, { kind, result, detail: observed[id][1] ?? "" }];
  });
process.stdout.write(`${JSON.stringify(Object.fromEntries(scores))}\n`, () => process.exit(0));
