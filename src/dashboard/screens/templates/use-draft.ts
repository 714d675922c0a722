/** @module The state of a template that is being edited: its fields, what they are based on, and saving them. */
import { useEffect, useMemo, useRef, useState } from 'react'
import type { TemplateRecord } from '#features/setup/templates/model.ts'
import { ApiError } from '../../api/client.ts'
import { type DraftSource, useReadTemplate, useSaveTemplate } from '../../api/templates.ts'
import { parseData } from './json-data.ts'
import { EMPTY_FIELDS, findChanges, mergeFields, type TemplateFields, toFields } from './texts.ts'

export interface DraftOptions {
  /** The template as last read; undefined for a new one. */
  readonly template: TemplateRecord | undefined
  readonly initial: TemplateFields
  readonly initialData: string
  onCreated(template: TemplateRecord): void
}

export type TemplateDraft = ReturnType<typeof useTemplateDraft>

export function useTemplateDraft({ template, initial, initialData, onCreated }: DraftOptions) {
  const [base, setBase] = useState(template)
  const [fields, setFields] = useState(initial)
  const [data, setData] = useState(initialData)
  /** What somebody else saved, while it is to be decided. */
  const [theirs, setTheirs] = useState<TemplateRecord>()
  const save = useSaveTemplate()
  const read = useReadTemplate(template?.id ?? '')
  const baseFields = base ? toFields(base) : EMPTY_FIELDS
  const changes = findChanges(baseFields, fields)
  const isDirty = Object.keys(changes).length > 0
  // Read again, as after a return to this tab.
  const isNewer = template !== undefined && base !== undefined && template.updated_at > base.updated_at
  const hasNewTexts = isNewer && template.version !== base?.version
  useEffect(() => {
    if (!isNewer || (hasNewTexts && isDirty)) return
    setBase(template)
    setFields((mine) => mergeFields(baseFields, mine, toFields(template)))
  })
  const isFinished = useRef(false)
  const write = (based: TemplateRecord | undefined, wanted: TemplateFields) => {
    const basedFields = based ? toFields(based) : EMPTY_FIELDS
    const saving = { id: based?.id, ifVersion: based?.version, fields: findChanges(basedFields, wanted) }
    save.mutate(saving, {
      onSuccess: (saved) => {
        setTheirs(undefined)
        setBase(saved)
        // What was typed meanwhile stays.
        setFields((mine) => mergeFields(wanted, mine, toFields(saved)))
        if (based) return
        isFinished.current = true
        onCreated(saved)
      },
      onError: (error) => {
        if (!(error instanceof ApiError) || error.code !== 'template_changed') return
        // Shown with the error when it cannot be read.
        read().then(setTheirs, () => undefined)
      },
    })
  }
  const parsed = useMemo(() => parseData(data), [data])
  const { subject, html_body, text_body } = fields
  const source = useMemo<DraftSource | undefined>(() => {
    if (!parsed.value || `${subject}${html_body}${text_body}` === '') return undefined
    return { subject, html_body, text_body, template_data: parsed.value }
  }, [subject, html_body, text_body, parsed])
  return {
    base,
    fields,
    setField: (name: keyof TemplateFields, value: string) => setFields((before) => ({ ...before, [name]: value })),
    data,
    setData,
    dataProblem: parsed.problem,
    source,
    isDirty,
    save,
    submit: () => write(base, fields),
    theirs,
    /** A version that somebody else saved and that is not shown yet. */
    newer: hasNewTexts && isDirty && !theirs && !save.isPending ? template : undefined,
    showTheirs: setTheirs,
    merged: theirs && mergeFields(baseFields, fields, toFields(theirs)),
    keepMine: () => {
      if (!theirs) return
      const wanted = mergeFields(baseFields, fields, toFields(theirs))
      setBase(theirs)
      setFields(wanted)
      write(theirs, wanted)
    },
    takeTheirs: () => {
      if (!theirs) return
      save.reset()
      setBase(theirs)
      setFields(toFields(theirs))
      setTheirs(undefined)
    },
    isFinished,
  }
}
