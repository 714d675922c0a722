import { expect, test } from 'bun:test'
import { renderParts, requireValidSource, startRenderSession } from '#features/setup/templates/render.ts'
import { previewTemplate } from '#features/setup/templates/routes.ts'
import { createTemplate } from '#features/setup/templates/templates.ts'
import { AppError } from '#platform/errors.ts'
import { formatUuid } from '#platform/ids.ts'
import type { Renderer } from '#platform/template/worker-renderer.ts'
import { KiB, MiB, seconds } from '#platform/units.ts'
import { createTestAccount, createTestApp } from '#test/support/app.ts'
import { ManualClock } from '#test/support/manual-clock.ts'

const REQUEST = { accountId: 1, urgency: 'now', source: { text: 'x' }, dataJson: '{}' } as const

const readRefusal = async (run: () => Promise<unknown>) => {
  const error = await run().catch((thrown: unknown) => thrown)
  return error instanceof AppError ? [error.status, error.code] : error
}

test('a request that renders for more than 40 seconds fails with 503, and its rendering stops', async () => {
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
    drain() {},
    close() {},
  }
  const { config, memory } = service.app
  using rendering = startRenderSession({ clock, config, memory, renderer })
  const answers: unknown[] = []
  for (let n = 0; n < 4; n++) answers.push(await readRefusal(() => rendering.render(REQUEST)))
  expect(answers).toEqual([{ text: 'x' }, { text: 'x' }, [503, 'server_busy'], [503, 'server_busy']])
  expect(rendered).toBe(3)
})

test('sources count as memory while they are rendered, and are rejected when too little memory is left', async () => {
  await using service = await createTestApp()
  const { clock, config, memory } = service.app
  const held: number[] = []
  const renderer: Renderer = {
    async render() {
      held.push(memory.inUseBytes)
      return { kind: 'rendered', parts: { text: 'x' } }
    },
    check: async () => [],
    drain() {},
    close() {},
  }
  const large = { ...REQUEST, source: { html: 'x'.repeat(MiB) } }
  {
    using rendering = startRenderSession({ clock, config, memory, renderer })
    await rendering.render(large)
    expect(held.every((bytes) => bytes >= MiB)).toBe(true)
    expect(memory.inUseBytes).toBeLessThan(KiB)
    const taken = memory.reserve(memory.limitBytes - memory.inUseBytes - MiB)
    expect(await readRefusal(() => rendering.render(large))).toEqual([503, 'server_busy'])
    expect(held.length).toBe(1)
    taken?.release()
  }
  expect(memory.inUseBytes).toBe(0)
})

test('a template is not rendered when memory for its sources is short', async () => {
  await using service = await createTestApp()
  const { app } = service
  const actor = await createTestAccount(app)
  const given = { alias: 'large', name: 'Large', subject: 'x', htmlBody: 'x'.repeat(MiB), textBody: null }
  const id = formatUuid((await createTemplate(app, actor, given)).uuid)
  const taken = app.memory.reserve(app.memory.limitBytes - MiB)
  expect(await readRefusal(() => previewTemplate(app, actor, id, {}))).toEqual([503, 'server_busy'])
  taken?.release()
  expect(await readRefusal(() => previewTemplate(app, actor, id, {}))).toEqual([422, 'template_limit'])
})

test('a stopped renderer causes a 503, not a template error', async () => {
  await using service = await createTestApp()
  const { app } = service
  expect(await renderParts(app, REQUEST)).toEqual({ text: 'x' })
  app.renderer.close()
  expect(await readRefusal(() => renderParts(app, REQUEST))).toEqual([503, expect.any(String)])
  expect(await readRefusal(() => requireValidSource(app, 1, { text: 'x' }))).toEqual([503, expect.any(String)])
})
