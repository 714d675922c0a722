/** @module The state of a template that is being edited: its fields, what they are based on, and saving them. */
import { useQueryClient } from '@tanstack/react-query'
import { useEffect, useMemo, useRef, useState } from 'react'
import type { RenderTemplateTextRequest, Template } from '#client/api.ts'
import { TassisError } from '#client/client.ts'
import { api, read } from '../../api/client.ts'
import { readAgain, useStore } from '../../api/data.ts'
import { parseData, toData } from './json-data.ts'
import { EMPTY_FIELDS, findChanges, mergeFields, type TemplateFields, toFields } from './texts.ts'

export interface DraftOptions {
  /** The template as last read; undefined for a new one. */
  readonly template: Template | undefined
  readonly initial: TemplateFields
  /** As JSON; a template with test data has that. */
  readonly initialData: string
  onCreated(template: Template): void
}

interface Saving {
  /** Undefined: a new template is created. */
  readonly based: Template | undefined
  /** What differs from it. */
  readonly changes: Partial<TemplateFields> & { readonly test_data?: Template['test_data'] }
}

const useSaveTemplate = () =>
  useStore(
    ({ based, changes }: Saving) =>
      based
        ? api.templates.update(based.id, { ...changes, if_version: based.version })
        : api.templates.create({ ...EMPTY_FIELDS, ...changes }),
    ({ data }) => read.templates.get(data.id),
    ['templates', 'list'],
    ['templates', 'listVersions'],
  )

export type TemplateDraft = ReturnType<typeof useTemplateDraft>

export function useTemplateDraft({ template, initial, initialData, onCreated }: DraftOptions) {
  const [base, setBase] = useState(template)
  const [fields, setFields] = useState(initial)
  const [data, setData] = useState(initialData)
  const [savedData, setSavedData] = useState(initialData)
  const parsed = useMemo(() => parseData(data), [data])
  const save = useSaveTemplate()
  const queries = useQueryClient()
  const baseFields = base ? toFields(base) : EMPTY_FIELDS
  const changes = findChanges(baseFields, fields)
  const isDataDirty = data !== savedData
  const isDirty = Object.keys(changes).length > 0 || isDataDirty
  // Read again, as after a return to this tab.
  const isNewer = template !== undefined && base !== undefined && template.updated_at > base.updated_at
  /** What somebody else saved, while it is to be decided whose texts stay. */
  const newer = isNewer && template.version !== base.version && isDirty ? template : undefined
  useEffect(() => {
    if (!isNewer || newer) return
    setBase(template)
    setFields((mine) => mergeFields(baseFields, mine, toFields(template)))
  })
  const isFinished = useRef(false)
  const write = (based: Template | undefined, wanted: TemplateFields) => {
    const basedFields = based ? toFields(based) : EMPTY_FIELDS
    save.mutate(
      {
        based,
        changes: {
          ...findChanges(basedFields, wanted),
          ...((isDataDirty || !based) && parsed.value && { test_data: parsed.value }),
        },
      },
      {
        onSuccess: ({ data: saved }) => {
          if (parsed.value) setSavedData(data)
          setBase(saved)
          // What was typed meanwhile stays.
          setFields((mine) => mergeFields(wanted, mine, toFields(saved)))
          if (based) return
          isFinished.current = true
          onCreated(saved)
        },
        onError: (error) => {
          if (error instanceof TassisError && error.code === 'template_changed')
            readAgain(queries, ['templates', 'get'])
        },
      },
    )
  }
  const { subject, html_body, text_body } = fields
  const source = useMemo<RenderTemplateTextRequest | undefined>(() => {
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
    newer: save.isPending ? undefined : newer,
    keepMine: () => {
      if (!newer) return
      const wanted = mergeFields(baseFields, fields, toFields(newer))
      setBase(newer)
      setFields(wanted)
      write(newer, wanted)
    },
    takeTheirs: () => {
      if (!newer) return
      save.reset()
      setBase(newer)
      setFields(toFields(newer))
      setData(toData(newer))
      setSavedData(toData(newer))
    },
    isFinished,
  }
}
