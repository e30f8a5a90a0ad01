// An original worker: it writes what it starts, ends and fails to lists beside the queues. It takes one job at a time: it runs a
// stalled batch of several in reverse.
const queueFarm = require('queue-farm')
const Redis = require('ioredis')
const [url, id] = process.argv.slice(2)
const history = new Redis(url)
const write = (queue, what, jobs) => history.rpush('history:' + queue, ...jobs.map(job => `${what} ${job.n} ${id}`))
const options = { redis: url, concurrent: 4, timeout: 3000, noActiveQueuesSleep: 100, allEmptySleep: 50, id }
const worker = queueFarm.createWorker(options, async (queue, jobs) => {
  await write(queue, 'start', jobs)
  await new Promise(resolve => setTimeout(resolve, Math.random() * 20))
  if (Math.random() < 0.05) {
    await write(queue, 'fail', jobs)
    throw new Error('again')
  }
  await write(queue, 'end', jobs)
})
worker.on('error', error => console.error(error))
worker.listen()
