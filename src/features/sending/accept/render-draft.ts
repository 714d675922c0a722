/**
 * @module Renders what a draft leaves to its template: the last check before an email is stored, so that nothing is
 * rendered for a request that is refused. Never renders what the request itself contains.
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

/** Finds a template of the account by its alias. */
export type FindTemplate = (alias: string) => Template | undefined

/**
 * Reads a template that is asked for several times in a row once: a batch mostly has one, and it may be large. Throws a 503 in place of reading one that
 * would not be rendered now.
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
 * The draft with all its parts; one without a template as it is. Throws 422: `template_not_found`, `template_error` and `template_limit` for faults of
 * the template with this data, `validation_failed` for what it gave; and what `rendering` throws.
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

/** The parts that the request has not given. */
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
