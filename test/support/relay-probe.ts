/**
 * @module A program for tests: sends one email through the smarthost with the given name and port at 127.0.0.1, with
 * TLS required, and prints the data of the last event as JSON. A separate process, because trusted certificates
 * (`NODE_EXTRA_CA_CERTS`) are fixed at its start.
 */
import { startMailFlow } from './mail-flow.ts'

const [host = '', port = ''] = process.argv.slice(2)
await using flow = await startMailFlow({
  zone: { [host]: { A: ['127.0.0.1'] } },
  settings: {
    TASSIS_DELIVERY: 'relay',
    TASSIS_RELAY_URL: `smtp://tassis:secret@${host}:${port}`,
    TASSIS_RELAY_TLS: 'required',
  },
})
const { events } = await flow.outcome('bob@one.test')
console.log(JSON.stringify(events.at(-1)?.data))
