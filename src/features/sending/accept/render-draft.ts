/**
 * @module Renders the template of a draft. This is the last check before an email is stored, so nothing is rendered for
 * a rejected request. Never renders parts that the request itself contains.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import { type RenderSession, requireRenderCapacity, serialiseData } from '#features/setup/templates/render.ts'
import {
  findTemplateByAlias,
  readTemplateSize,
  type Template,
  toTemplateSource,
} from '#features/setup/templates/templates.ts'
import { invalid } from '#platform/errors.ts'
import type { RenderRequest } from '#platform/template/renderer.ts'
import { type Draft, fillDraft } from './draft.ts'

/** Finds a template of the account by alias. */
export type FindTemplate = (alias: string) => Template | undefined

/**
 * Caches only the last template: most batches use a single one, and a template may be large. Throws a 503 instead of
 * reading a template for which there is no rendering capacity.
 */
export function createTemplateFinder(app: App, accountId: number): FindTemplate {
  let last: { readonly alias: string; readonly template: Template | undefined } | undefined
  return (alias) => {
    if (last?.alias === alias) return last.template
    requireRenderCapacity(app, accountId, readTemplateSize(app.db, accountId, { alias }))
    last = { alias, template: findTemplateByAlias(app.db, accountId, alias) }
    return last.template
  }
}

/**
 * Renders the missing parts of a draft; returns a draft without a template unchanged. Throws a 422:
 * `template_not_found`, `template_error` or `template_limit` if the template fails with this data, `validation_failed`
 * if its result is not valid. Also throws the errors of `rendering`.
 */
export async function renderDraft(
  app: App,
  actor: Actor,
  draft: Draft,
  rendering: RenderSession,
  find: FindTemplate = createTemplateFinder(app, actor.accountId),
): Promise<Draft> {
  if (!draft.template) return draft
  const template = find(draft.template.alias)
  if (!template)
    throw invalid(
      'template_alias',
      `There is no template with the alias "${draft.template.alias.slice(0, 100)}".`,
      'template_not_found',
    )
  return fillDraft(draft, template.id, await rendering.render(toRenderRequest(actor, draft, template)))
}

/** Requests the parts that the draft lacks. */
function toRenderRequest(actor: Actor, draft: Draft, template: Template): RenderRequest {
  const { subject, html, text } = toTemplateSource(template)
  return {
    accountId: actor.accountId,
    urgency: 'now',
    source: {
      subject: draft.subject === '' ? subject : undefined,
      html: draft.html ? undefined : html,
      text: draft.text ? undefined : text,
    },
    dataJson: serialiseData(draft.extra.template_data ?? {}),
  }
}
