// Runs the suite of a framework as a program of its own, and returns what has become of its tests.
'use strict'

const { spawn } = require('node:child_process')
const { dirname, join } = require('node:path')

/** The standard output of a program of Node. */
function run (program, args, env) {
  const options = { cwd: __dirname, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'inherit'] }
  const child = spawn(process.execPath, [program, ...args], options)
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (data) => { output += data })
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', () => resolve(output))
  })
}

/** The names of the tests that passed, and the names of the others with the reasons. */
async function runVitest (env) {
  const program = join(dirname(require.resolve('vitest/package.json')), 'vitest.mjs')
  const output = await run(program, ['run', '--root', join(__dirname, 'suites'), '--reporter=json'], env)
  return sorted(parsed(output).testResults.flatMap(({ message, assertionResults }) => {
    if (message) throw new Error(message)
    return assertionResults.map(({ title, status, failureMessages }) => {
      return { title, isPassed: status === 'passed', why: failureMessages.join('\n') }
    })
  }))
}

async function runJapa (file, env) {
  const output = await run(join(__dirname, 'suites', file), [], env)
  const events = output.split('\n').filter((line) => line.startsWith('{')).map(parsed)
  return sorted(events.filter(({ event }) => event === 'test:end').map(({ title, errors, isSkipped }) => {
    const why = errors.map(({ error }) => error?.message).join('\n')
    return { title: title.expanded, isPassed: errors.length === 0 && !isSkipped, why }
  }))
}

function sorted (tests) {
  return {
    passed: tests.filter(({ isPassed }) => isPassed).map(({ title }) => title),
    failed: tests.filter(({ isPassed }) => !isPassed).map(({ title, why }) => ({ title, why }))
  }
}

function parsed (text) {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Error(`the suite has printed no JSON:\n${text}`, { cause: error })
  }
}

module.exports = { runJapa, runVitest }
