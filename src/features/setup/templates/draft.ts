/**
 * @module Renders a text that is still being written: each part for itself, so that an error in one leaves the others.
 * Sends and stores nothing.
 */
import type { Actor, App } from '#features/core/app/app.ts'
import { AppError, invalid } from '#platform/errors.ts'
import { PARTS, type TemplateFault, type TemplateSource } from '#platform/template/renderer.ts'
import type { DraftResult, RenderProblem } from './model.ts'
import { serialiseData, startRenderSession, TemplateFaultError } from './render.ts'
import { MAX_SUBJECT_LENGTH } from './templates.ts'

/** The source of an absent part is undefined. */
export type Draft = Readonly<Record<'subject' | 'html' | 'text', string | undefined>>

type RenderedDraft = Omit<DraftResult, 'preview_id'>
type DraftField = RenderProblem['field']

/**
 * Drafts have a queue and penalties of their own, so that an endless loop that is being written does not delay the mail
 * of the account. Ids of accounts are positive.
 */
const toQueueId = (accountId: number): number => -accountId

/** Throws 422 without any part and for too much data, 413 when the parts render to too much, 503 when there is no capacity. */
export async function renderDraft(
  app: App,
  { accountId }: Actor,
  draft: Draft,
  data: Readonly<Record<string, unknown>>,
): Promise<RenderedDraft> {
  const sources = PARTS.filter(([part]) => (draft[part] ?? '') !== '')
  if (sources.length === 0) throw invalid('body', 'At least one of subject, html_body and text_body must be set.')
  const queueId = toQueueId(accountId)
  const dataJson = serialiseData(data)
  using rendering = startRenderSession(app)
  const rendered: Omit<RenderedDraft, 'problems'> = { subject: null, html_body: null, text_body: null }
  const problems: RenderProblem[] = []
  for (const [part, field] of sources) {
    const source = (draft[part] ?? '').toWellFormed()
    const request = {
      accountId: queueId,
      urgency: 'now',
      source: { [part]: source } as TemplateSource,
      dataJson,
    } as const
    try {
      rendered[field] = (await rendering.render(request))[part] ?? null
    } catch (error) {
      problems.push(...toProblems(error, field, source))
    }
  }
  if (rendered.subject !== null) problems.push(...findSubjectProblems(rendered.subject))
  return { ...rendered, problems: problems.filter(isFirstOfItsKind) }
}

const createProblem = (field: DraftField, message: string, more: Partial<RenderProblem> = {}): RenderProblem => ({
  ...{ field, line: null, column: null, variable: null, kind: 'error', message },
  ...more,
})

/** The problems of an error that is the author's; throws any other error. */
function toProblems(error: unknown, field: DraftField, source: string): readonly RenderProblem[] {
  if (error instanceof TemplateFaultError) return error.faults.map((fault) => toProblem(fault, field, source))
  if (error instanceof AppError && error.status === 422) return [createProblem(field, error.message)]
  throw error
}

function toProblem(
  { part, line, variable, kind, message }: TemplateFault,
  field: DraftField,
  source: string,
): RenderProblem {
  // Faults of the data belong to no part; their messages begin with its name.
  const own = part ?? (message.startsWith('template_data') ? 'template_data' : field)
  const column = line === undefined || variable === undefined ? null : findColumn(source, line, variable)
  const shownKind = kind === 'undefined' ? 'missing_variable' : kind
  return createProblem(own, message, { line: line ?? null, column, variable: variable ?? null, kind: shownKind })
}

/** The column of a variable in a line of the source, from 1. */
function findColumn(source: string, line: number, variable: string): number | null {
  const text = source.split('\n', line)[line - 1] ?? ''
  for (let at = text.indexOf(variable); at !== -1; at = text.indexOf(variable, at + 1)) {
    const isWhole = !/[\w.]/.test(text[at - 1] ?? '') && !/\w/.test(text[at + variable.length] ?? '')
    if (isWhole) return at + 1
  }
  return null
}

/** What a send with this subject would refuse. */
function findSubjectProblems({ length }: string): readonly RenderProblem[] {
  if (length === 0) return [createProblem('subject', 'The rendered subject is empty.')]
  if (length <= MAX_SUBJECT_LENGTH) return []
  const message = `The rendered subject has ${length} characters; at most ${MAX_SUBJECT_LENGTH} are allowed.`
  return [createProblem('subject', message)]
}

/** A fault of the data is found once for each part. */
const isFirstOfItsKind = (problem: RenderProblem, index: number, all: readonly RenderProblem[]): boolean =>
  all.findIndex(({ field, message }) => field === problem.field && message === problem.message) === index
