// Drives the original Node package: a command a line on stdin, an answer a line on stdout, both JSON.
const fs = require('fs')
const readline = require('readline')
const Redis = require('ioredis')
const { WorkQueue } = require('@mevitae/redis-work-queue/dist/WorkQueue.js')
const { Item } = require('@mevitae/redis-work-queue/dist/Item.js')
const { KeyPrefix } = require('@mevitae/redis-work-queue/dist/KeyPrefix.js')

const [url, prefix] = process.argv.slice(2)
const db = new Redis(url.startsWith('unix://') ? url.slice('unix://'.length).split('?')[0] : url)
const queue = new WorkQueue(new KeyPrefix(prefix))
console.log = console.error // the package prints when it cleans

async function consume(path, secs) {
  const log = fs.openSync(path, 'a')
  for (;;) {
    const item = await queue.lease(db, secs, true, 1)
    if (!item) continue
    fs.writeSync(log, `start ${item.id}\n`)
    await new Promise((resolve) => setTimeout(resolve, 2))
    const done = await queue.complete(db, item)
    fs.writeSync(log, `done ${item.id} ${done ? 1 : 0}\n`)
  }
}

async function run([op, ...args]) {
  if (op === 'add') return queue.addItem(db, new Item(Buffer.from(args[1], 'base64'), args[0]))
  if (op === 'lease') {
    const item = await queue.lease(db, args[0], args[1] > 0, args[1])
    return item ? [item.id, item.data.toString('base64')] : null
  }
  if (op === 'complete') return queue.complete(db, new Item(Buffer.from(''), args[0]))
  if (op === 'consume') return consume(...args)
  return { light_clean: () => queue.lightClean(db), queue_len: () => queue.queueLen(db), processing: () => queue.processing(db) }[op]()
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const answer = await run(JSON.parse(line))
    process.stdout.write(JSON.stringify(answer === undefined ? null : answer) + '\n')
  }
  db.disconnect()
}
main()
