/** @module Templates: renders a message of typical size with the service's renderer, in this process. */
import { CommandError } from '#app/cli/options.ts'
import type { Benchmark, Values } from '#bench/measure.ts'
import type { RenderRequest } from '#platform/template/renderer.ts'
import { WorkerRenderer } from '#platform/template/worker-renderer.ts'
import { systemClock } from '#platform/time/clock.ts'

const IN_FLIGHT = 16
const WARM_UP_COUNT = 2000
const ROW_COUNT = 12

const ROW_TEMPLATE = `<tr class="{{ loop.cycle('odd', 'even') }}"><td>{{ loop.index }}</td><td>{{ item.name }}{% if item.is_new %} <b>new</b>{% endif %}</td>
<td>{{ item.quantity }}</td><td>{{ '%.2f'|format(item.price) }}</td><td>{% for tag in item.tags %}{{ tag }}{% if not loop.last %}, {% endif %}{% endfor %}</td></tr>`
const PARAGRAPH =
  '<p style="margin:0 0 16px;font:16px/24px Arial,sans-serif;color:#333">Thank you for your order; here is what we send you, and when.</p>\n'

/** Some 6 KB, most of it the same in every message. */
const TEMPLATE = `<!doctype html><html><head><title>{{ title }}</title></head><body>
<h1>Hello {{ user.first_name|title }}{% if user.is_member %}, dear member{% elif user.orders > 10 %}, dear customer{% endif %}!</h1>
${PARAGRAPH.repeat(20)}<table>{% for item in items %}${ROW_TEMPLATE}{% else %}<tr><td>Nothing</td></tr>{% endfor %}</table>
${PARAGRAPH.repeat(20)}<p>{{ company.name }}, {{ company.street }}, <a href="{{ url }}">unsubscribe</a></p></body></html>`

const makeData = (number: number): string =>
  JSON.stringify({
    title: `Order ${number}`,
    user: { first_name: 'ada', is_member: number % 2 === 0, orders: number % 20 },
    items: Array.from({ length: ROW_COUNT }, (_, at) => ({
      name: `Article & part ${number + at}`,
      is_new: at % 3 === 0,
      quantity: at,
      price: at * 1.25 + 0.5,
      tags: ['useful', 'blue'],
    })),
    company: { name: 'Example Ltd', street: '1 Example Street' },
    url: `https://example.com/u/${number}`,
  })

export const createTemplateBenchmark = (renders: number): Benchmark => ({
  name: 'templates',
  description: `${renders} renders of a template of ${Buffer.byteLength(TEMPLATE)} bytes with loops and conditions, each with different data.`,
  figures: [
    ['alone_ms', 'ms per render, one after another', 3],
    ['beside_ms', `ms per render, ${IN_FLIGHT} in flight`, 3],
    ['cpu_ms', '  CPU ms per render, all threads', 3],
  ],
  prepare: async () => [{ title: 'runs', run: () => runTemplates(renders) }],
})

/** Times are from the request on the main thread to the result there. */
async function runTemplates(renders: number): Promise<Values> {
  const log = { error: () => undefined, warn: () => undefined }
  const renderer = new WorkerRenderer({ clock: systemClock, log })
  try {
    const source = { html: TEMPLATE }
    const render = async (number: number): Promise<void> => {
      const request: RenderRequest = { accountId: 1, urgency: 'now', source, dataJson: makeData(number) }
      const outcome = await renderer.render(request)
      if (outcome.kind === 'fault')
        throw new CommandError(`The template of the benchmark is invalid: ${outcome.fault.message}`)
    }
    for (let number = 0; number < WARM_UP_COUNT; number++) await render(number)
    const startedMs = systemClock.monotonicMs()
    for (let number = 0; number < renders; number++) await render(number)
    const aloneMs = (systemClock.monotonicMs() - startedMs) / renders

    const cpuBefore = process.cpuUsage()
    const besideFromMs = systemClock.monotonicMs()
    let next = 0
    const renderRemaining = async (): Promise<void> => {
      while (next < renders) await render(next++)
    }
    await Promise.all(Array.from({ length: IN_FLIGHT }, renderRemaining))
    const besideMs = (systemClock.monotonicMs() - besideFromMs) / renders
    const { user, system } = process.cpuUsage(cpuBefore)
    return { alone_ms: aloneMs, beside_ms: besideMs, cpu_ms: (user + system) / 1000 / renders }
  } finally {
    renderer.close()
  }
}
