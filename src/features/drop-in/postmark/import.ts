/**
 * @module Reads the templates of a server at Postmark, and converts them into templates of ours, with their layouts.
 * Stores nothing.
 */

import type { TemplateInput } from '#features/setup/templates/templates.ts'
import { parseJsonObject } from '#platform/json-object.ts'
import { convertMustachio } from './mustachio.ts'

/** A template as Postmark's API returns it. */
export interface ForeignTemplate {
  readonly TemplateId: number
  readonly Name: string
  readonly Alias: string | null
  readonly Subject: string
  readonly HtmlBody: string | null
  readonly TextBody: string | null
  readonly LayoutTemplate: string | null
  readonly TemplateType: 'Standard' | 'Layout'
}

export interface ConvertedTemplate {
  readonly foreignId: number
  readonly input: TemplateInput
  /** What could not be converted; empty: everything was. */
  readonly problems: readonly string[]
}

/** An API that failed, in one sentence for the operator. */
export class ImportError extends Error {}

const PAGE_SIZE = 100
const MAX_TEMPLATES = 10_000
const CONTENT = /\{\{\{\s*@content\s*\}\}\}/g

/**
 * Reads all active templates and layouts.
 * @param get returns the response to a GET of a path
 */
export async function readForeignTemplates(get: (path: string) => Promise<Response>): Promise<ForeignTemplate[]> {
  const found: ForeignTemplate[] = []
  for (let offset = 0; offset < MAX_TEMPLATES; offset += PAGE_SIZE) {
    const path = `/templates?count=${PAGE_SIZE}&offset=${offset}&templateType=All`
    const page = await readJson<{ Templates?: { TemplateId: number; Active?: boolean }[] | null }>(get, path)
    const templates = page.Templates ?? []
    for (const { TemplateId, Active } of templates)
      if (Active !== false) found.push(await readJson<ForeignTemplate>(get, `/templates/${TemplateId}`))
    if (templates.length < PAGE_SIZE) return found
  }
  return found
}

/** The JSON object of a response. Throws ImportError for an error and for any other response. */
async function readJson<T>(get: (path: string) => Promise<Response>, path: string): Promise<T> {
  const response = await get(path)
  const body = parseJsonObject(await response.text())
  const message = String(body?.['Message'] ?? '')
  if (response.status === 401) throw new ImportError(`Postmark refused the token: ${message || 'status 401'}`)
  if (response.status !== 200 || !body)
    throw new ImportError(`Postmark responded with status ${response.status}${message && `: ${message}`}`)
  return body as T
}

const isLayout = ({ TemplateType }: ForeignTemplate): boolean => TemplateType === 'Layout'

/** Converts all templates; layouts are put into the templates that use them. */
export function convertTemplates(templates: readonly ForeignTemplate[]): ConvertedTemplate[] {
  const layouts = new Map(templates.flatMap((template) => (isLayout(template) ? [[template.Alias, template]] : [])))
  return templates.filter((template) => !isLayout(template)).map((template) => convertTemplate(template, layouts))
}

function convertTemplate(
  template: ForeignTemplate,
  layouts: ReadonlyMap<string | null, ForeignTemplate>,
): ConvertedTemplate {
  const problems: string[] = []
  const layout = template.LayoutTemplate ? layouts.get(template.LayoutTemplate) : undefined
  if (template.LayoutTemplate && !layout) problems.push(`its layout "${template.LayoutTemplate}" is missing`)
  const convert = (name: 'Subject' | 'HtmlBody' | 'TextBody', source: string | null | undefined): string | null => {
    if (!source) return null
    const conversion = convertMustachio(source, name === 'HtmlBody')
    problems.push(...conversion.problems.map((problem) => `${name}, ${problem}`))
    return conversion.source
  }
  const { TemplateId, Alias, Name } = template
  const alias = Alias || `postmark-${TemplateId}`
  return {
    foreignId: TemplateId,
    input: {
      alias,
      name: Name || alias,
      subject: convert('Subject', template.Subject) ?? '',
      htmlBody: convert('HtmlBody', putInto(layout?.HtmlBody, template.HtmlBody)),
      textBody: convert('TextBody', putInto(layout?.TextBody, template.TextBody)),
    },
    problems,
  }
}

const putInto = (layout: string | null | undefined, body: string | null): string | null =>
  layout && body ? layout.replace(CONTENT, () => body) : body
