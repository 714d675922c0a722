/** @module Shows what a template gives with some data. Sends and stores nothing. */
import type { Actor, App } from '#features/core/app/app.ts'
import type { RenderedParts } from '#platform/template/renderer.ts'
import { dataJsonOf, requireRoom, startRendering } from './render.ts'
import { getTemplate, sourceOf, templateSize } from './templates.ts'

/** All parts of a template with `data`; 404 when the account has no such template, 422 for its faults. */
export async function previewTemplate(
  app: App,
  actor: Actor,
  id: string,
  data: Readonly<Record<string, unknown>>,
): Promise<RenderedParts> {
  requireRoom(app, actor.accountId, templateSize(app.db, actor.accountId, { id }))
  const source = sourceOf(getTemplate(app.db, actor.accountId, id))
  using rendering = startRendering(app)
  return await rendering.render({ accountId: actor.accountId, urgency: 'now', source, dataJson: dataJsonOf(data) })
}
