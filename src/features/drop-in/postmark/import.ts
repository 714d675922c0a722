/** @module Converts the templates of a server at Postmark into templates of ours, with their layouts. Stores nothing. */

import type { TemplateInput } from '#features/setup/templates/templates.ts'
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
  readonly Active?: boolean
}

export interface ConvertedTemplate {
  readonly foreignId: number
  readonly input: TemplateInput
  /** What could not be converted; empty: everything was. */
  readonly problems: readonly string[]
}

const CONTENT = /\{\{\{\s*@content\s*\}\}\}/g

const isLayout = ({ TemplateType }: ForeignTemplate): boolean => TemplateType === 'Layout'

/** Converts all active templates; layouts are put into the templates that use them. */
export function convertTemplates(templates: readonly ForeignTemplate[]): ConvertedTemplate[] {
  const layouts = new Map(templates.flatMap((template) => (isLayout(template) ? [[template.Alias, template]] : [])))
  return templates
    .filter((template) => !isLayout(template) && template.Active !== false)
    .map((template) => convertTemplate(template, layouts))
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
