/** @module Renders a template with sample data. Sends and stores nothing. */
import type { Actor, App } from '#features/core/app/app.ts'
import type { RenderedParts } from '#platform/template/renderer.ts'
import { requireRenderCapacity, serialiseData, startRenderSession } from './render.ts'
import { getTemplate, readTemplateSize, toTemplateSource } from './templates.ts'

/**
 * All parts of a template rendered with `data`. Throws 404 when the account has no such template, and 422 for template
 * errors.
 */
export async function previewTemplate(
  app: App,
  actor: Actor,
  id: string,
  data: Readonly<Record<string, unknown>>,
): Promise<RenderedParts> {
  requireRenderCapacity(app, actor.accountId, readTemplateSize(app.db, actor.accountId, { id }))
  const source = toTemplateSource(getTemplate(app.db, actor.accountId, id))
  using rendering = startRenderSession(app)
  return await rendering.render({ accountId: actor.accountId, urgency: 'now', source, dataJson: serialiseData(data) })
}
