import { expect, test } from 'bun:test'
import { renderParts, requireUsable, startRendering } from '#features/templates/render.ts'
import { ManualClock } from '#platform/clock.ts'
import { AppError } from '#platform/errors.ts'
import type { Renderer } from '#platform/template/renderer.ts'
import { seconds } from '#platform/units.ts'
import { createTestApp } from '#test/support/app.ts'

const REQUEST = { accountId: 1, urgency: 'now', source: { text: 'x' }, dataJson: '{}' } as const

const refusalOf = async (run: () => Promise<unknown>) => {
  const error = await run().catch((thrown: unknown) => thrown)
  return error instanceof AppError ? [error.status, error.code] : error
}

test('what a request renders is to be ready in 40 seconds: then it is a 503, and nothing more is rendered', async () => {
  await using service = await createTestApp()
  const clock = new ManualClock()
  let rendered = 0
  const renderer: Renderer = {
    async render() {
      rendered += 1
      clock.advance(seconds(15))
      return { kind: 'rendered', parts: { text: 'x' } }
    },
    check: async () => [],
    close() {},
  }
  const { config, memory } = service.app
  using rendering = startRendering({ clock, config, memory, renderer })
  const answers: unknown[] = []
  for (let n = 0; n < 4; n++) answers.push(await refusalOf(() => rendering.render(REQUEST)))
  expect(answers).toEqual([{ text: 'x' }, { text: 'x' }, [503, 'server_busy'], [503, 'server_busy']])
  expect(rendered).toBe(3)
})

test('a renderer that has ended is a 503, not a fault of the template', async () => {
  await using service = await createTestApp()
  const { app } = service
  expect(await renderParts(app, REQUEST)).toEqual({ text: 'x' })
  app.renderer.close()
  expect(await refusalOf(() => renderParts(app, REQUEST))).toEqual([503, expect.any(String)])
  expect(await refusalOf(() => requireUsable(app, 1, { text: 'x' }))).toEqual([503, expect.any(String)])
})
