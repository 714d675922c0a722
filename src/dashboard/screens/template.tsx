import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useState } from 'react'
import type { Template } from '#client/api.ts'
import { read } from '../api/client.ts'
import { useData } from '../api/data.ts'
import { Page, QueryView } from '../parts/page.tsx'
import { TemplateEditor } from './templates/editor.tsx'
import { toData } from './templates/json-data.ts'
import { toFields } from './templates/texts.ts'
import { useTemplateDraft } from './templates/use-draft.ts'

export default function TemplateScreen() {
  const { id } = useParams({ from: '/templates/$id' })
  const query = useData(read.templates.get(id))
  if (query.data) return <SavedTemplate key={id} template={query.data} />
  return (
    <Page title="Template" back={{ label: 'All templates', target: { to: '/templates' } }}>
      <QueryView query={query}>{() => null}</QueryView>
    </Page>
  )
}

function SavedTemplate({ template }: { readonly template: Template }) {
  const { tab = 'html' } = useSearch({ from: '/templates/$id' })
  const navigate = useNavigate()
  const [initial] = useState(() => toFields(template))
  const [initialData] = useState(() => toData(template))
  const draft = useTemplateDraft({ template, initial, initialData, onCreated: () => undefined })
  return (
    <TemplateEditor
      draft={draft}
      tab={tab}
      onTab={(next) =>
        navigate({
          to: '/templates/$id',
          params: { id: template.id },
          search: { tab: next },
          replace: true,
          resetScroll: false,
        })
      }
    />
  )
}
