/**
 * @module Runs the service as a process built from its parts, for the durability test. Configured by
 * `TASSIS_*` like the real one; prints `ready` and its process id when it serves HTTP.
 */
import { openApp } from '#app/create.ts'
import { createHttp, listenHttp } from '#app/http.ts'
import { loadConfig } from '#app/settings.ts'
import { startDelivery } from '#features/sending/delivery/start.ts'

const { config } = loadConfig(process.env)
const opened = openApp(config)
const delivery = await startDelivery(opened)
const http = createHttp(opened)
listenHttp(http, config.httpAddr)
console.log(`ready ${process.pid}`)

process.on('SIGTERM', async () => {
  await http.stop(1000)
  await delivery.stop()
  await opened.close()
  process.exit(0)
})
