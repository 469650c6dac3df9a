// The examples of the pages: each line with `// → value` is an expression with that value, and `// ⇒ error` one that rejects.
'use strict'

const assert = require('node:assert/strict')
const fs = require('node:fs')
const path = require('node:path')
const { test } = require('node:test')
const { inspect } = require('node:util')
const { redis } = require('./support.js')

const PAGES = ['bindings/node/README.md', 'docs/node.md', 'docs/keyv.md', 'docs/cache-manager.md', 'docs/bentocache.md']

/** The code of a page, whose lines that have a result check it. */
function program (page) {
  const blocks = [...page.matchAll(/^```js\n(.*?)^```$/gms)].map(([, code]) => code)
  let results = 0
  const code = blocks.join('').replace(/^((?:[^\n]*\n)*?[^\n]*?)(?: *\/\/ (→|⇒) (.*))$/gm, (_, before, arrow, said) => {
    results++
    // The expression begins behind the last line that ends a statement.
    const lines = before.split('\n')
    let first = lines.length - 1
    while (first > 0 && /^(\s|\}|\))/.test(lines[first])) first--
    const expression = lines.slice(first).join('\n')
    const check = `check(${JSON.stringify(arrow)}, ${JSON.stringify(said)}, async () => (${expression}))`
    return [...lines.slice(0, first), `await ${check}`].join('\n')
  })
  return { code, results }
}

async function check (arrow, said, run) {
  if (arrow === '→') return assert.equal(inspect(await run()), said)
  await assert.rejects(run(), (error) => {
    assert.equal(`${error.name}: ${error.message}`, said)
    return true
  })
}

for (const name of PAGES) {
  test(`the examples of ${name}`, async (t) => {
    const { code, results } = program(fs.readFileSync(path.join(process.env.LARDER_ROOT, name), 'utf8'))
    assert.ok(results > 2, `${results} results`)
    const server = await redis(t)
    const AsyncFunction = (async () => {}).constructor
    const quiet = { log () {} }
    await new AsyncFunction('require', 'REDIS', 'check', 'console', code)(require, server.url, check, quiet)
  })
}
