// BullMQ: https://docs.bullmq.io. For Node; it answers the same command line as contract.py, see there.

import { createRequire } from 'node:module'
import { appendFileSync, existsSync, readFileSync, statSync } from 'node:fs'

// The packages are in the folder that NODE_PATH names, which only `require` looks into.
const require = createRequire(import.meta.url)
const { Queue, Worker } = require('bullmq')

const QUEUE = 'bench'
const CONCURRENCY = 100
const CHUNK = 1000
const PING_GAP_MS = [20, 60]
const PING_WAIT_S = 15
const last = Number(process.env.BENCH_COUNT ?? '0')
const connection = { url: process.env.BENCH_URL, maxRetriesPerRequest: null }
const options = { removeOnComplete: true }

// The clock of Python's time.monotonic().
const monotonic = () => Number(process.hrtime.bigint()) / 1e9
const sleep = (ms) => new Promise((done) => setTimeout(done, ms))

function note(journal, what, token) {
  const worker = process.env.BENCH_WORKER ?? 'worker'
  appendFileSync(journal, `${what} ${token} ${worker} ${monotonic().toFixed(6)}\n`)
}

function work() {
  let ended = 0
  const noop = async ({ data: [journal, token, seconds] }) => {
    if (seconds) await sleep(seconds * 1000)
    if (last === 0) {
      if (journal) note(journal, 'end', token)
      return
    }
    ended += 1
    if (ended === 1) note(process.env.BENCH_JOURNAL, 'start', process.env.BENCH_TOKEN)
    if (ended === last) note(process.env.BENCH_JOURNAL, 'end', process.env.BENCH_TOKEN)
  }
  new Worker(QUEUE, noop, { connection, concurrency: CONCURRENCY })
}

async function put(queue, count, bulk) {
  const record = { user: 1729, name: 'thumbnail', size: [640, 480], crop: true, tags: ['a', 'b'], ratio: 1.5 }
  const data = ['', process.env.BENCH_DICT === '1' ? record : (process.env.BENCH_TOKEN ?? ''), Number(process.env.BENCH_SECONDS ?? 0)]
  if (!bulk) {
    for (let i = 0; i < count; i++) await queue.add('noop', data, options)
    return
  }
  for (let begin = 0; begin < count; begin += CHUNK) {
    const size = Math.min(CHUNK, count - begin)
    await queue.addBulk(Array.from({ length: size }, () => ({ name: 'noop', data, opts: options })))
  }
}

async function ping(queue, count) {
  const journal = process.env.BENCH_JOURNAL
  const size = () => (existsSync(journal) ? statSync(journal).size : 0)
  const sent = []
  for (let i = 0; i < count; i++) {
    await sleep(PING_GAP_MS[0] + Math.random() * (PING_GAP_MS[1] - PING_GAP_MS[0]))
    const before = size()
    sent.push(monotonic())
    await queue.add('noop', [journal, `p${i}`, 0], options)
    for (const until = monotonic() + PING_WAIT_S; size() <= before; await sleep(2)) {
      if (monotonic() > until) throw new Error(`job ${i} had not run after ${PING_WAIT_S} s`)
    }
  }
  return sent
}

async function main([command, kind, count, ...flags]) {
  if (command === 'worker') return work()
  if (command === 'facts') {
    const installed = (name) => JSON.parse(readFileSync(`${process.env.NODE_PATH}/${name}/package.json`)).version
    const versions = { bullmq: installed('bullmq'), ioredis: installed('ioredis') }
    const fast = '`concurrency: 100`, `removeOnComplete`, on Node'
    const said = { title: 'BullMQ', kinds: ['async'], versions, variants: [], fast, sweep: [], no_bulk: '', no_single: '' }
    return console.log(JSON.stringify(said))
  }
  const queue = new Queue(QUEUE, { connection })
  if (command === 'ping') {
    console.log(JSON.stringify({ sent: await ping(queue, Number(count)) }))
  } else {
    const at = flags.indexOf('--warm')
    const bulk = flags.includes('--bulk')
    if (at >= 0) await put(queue, Number(flags[at + 1]), bulk)
    const began = monotonic()
    await put(queue, Number(count), bulk)
    console.log(JSON.stringify({ seconds: monotonic() - began }))
  }
  await queue.close()
}

await main(process.argv.slice(2))
