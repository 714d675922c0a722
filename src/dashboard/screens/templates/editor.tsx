/** @module The editor of a template: fields, source, data and live preview. */
import { Button, Code, Group, SimpleGrid, Stack, Text } from '@mantine/core'
import { useWindowEvent } from '@mantine/hooks'
import { useMemo, useState } from 'react'
import type { Template } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { useAll } from '../../api/data.ts'
import { useAllowed } from '../../api/session.tsx'
import { ActionButton } from '../../parts/buttons.tsx'
import { CodeEditor } from '../../parts/code-editor.tsx'
import { LeaveGuard } from '../../parts/dialog.tsx'
import { FieldInput } from '../../parts/field-input.tsx'
import type { Field } from '../../parts/fields.ts'
import { FormError, findFieldError } from '../../parts/form.tsx'
import { toSlug } from '../../parts/format.ts'
import { AppLink } from '../../parts/links.tsx'
import { ActionLink } from '../../parts/list.tsx'
import { LongText } from '../../parts/long-text.tsx'
import { MailFrame } from '../../parts/mail-frame.tsx'
import { Page } from '../../parts/page.tsx'
import { Notice, StatusLabel } from '../../parts/status.tsx'
import { Tabs } from '../../parts/tabs.tsx'
import { addVariable } from './json-data.ts'
import { EDITOR_TABS, type EditorTab, type RenderProblem, toCodeProblem } from './texts.ts'
import { TemplateTools } from './tools.tsx'
import type { TemplateDraft } from './use-draft.ts'
import { type Rendering, useRendered } from './use-rendered.ts'

const useSaveKey = (onSave: () => void): void =>
  useWindowEvent('keydown', (event) => {
    if (event.key.toLowerCase() !== 's' || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return
    event.preventDefault()
    if (document.querySelector('[role=dialog]') === null) onSave()
  })

interface TemplateEditorProps {
  readonly draft: TemplateDraft
  readonly tab: EditorTab
  onTab(tab: EditorTab): void
}

const NO_PROBLEMS: readonly RenderProblem[] = []

export function TemplateEditor({ draft, tab, onTab }: TemplateEditorProps) {
  const reason = useAllowed('developer')
  const rendering = useRendered(draft.source)
  const { base, newer, save, isFinished } = draft
  const obstacle = reason ?? (draft.isDirty ? undefined : 'Nothing has changed.')
  const submit = () => {
    if (obstacle === undefined && !save.isPending) draft.submit()
  }
  useSaveKey(submit)
  return (
    <Page
      title={base?.name ?? 'Create a template'}
      back={{ label: 'All templates', target: { to: '/templates' } }}
      status={<SaveState draft={draft} />}
      action={
        <>
          {base && <TemplateTools template={base} rendering={rendering} isFinished={isFinished} />}
          <ActionButton reason={obstacle} onClick={submit} loading={save.isPending}>
            Save
          </ActionButton>
        </>
      }
    >
      <LeaveGuard
        text="What you changed in this template is not saved. It is lost when you leave."
        isDirty={() => draft.isDirty && !isFinished.current}
      />
      {base && <Languages template={base} />}
      {reason !== undefined && <Notice>{reason}</Notice>}
      {newer ? (
        <Notice
          isUrgent
          tone="warning"
          title={`Somebody else saved version ${newer.version}`}
          action={
            <Group gap="xs">
              <Button size="xs" onClick={draft.keepMine}>
                Save mine over version {newer.version}
              </Button>
              <Button size="xs" variant="default" onClick={draft.takeTheirs}>
                Discard mine, take version {newer.version}
              </Button>
            </Group>
          }
        >
          Your text is not saved, and not lost. Version {newer.version} stays under Versions, which show what differs.
        </Notice>
      ) : (
        <FormError error={save.error} />
      )}
      <Fields draft={draft} isReadOnly={reason !== undefined} rendering={rendering} />
      <div className="template-editor">
        <Sources draft={draft} rendering={rendering} isReadOnly={reason !== undefined} tab={tab} onTab={onTab} />
        <Preview rendering={rendering} obstacle={findObstacle(draft)} />
      </div>
    </Page>
  )
}

/** Links to the templates with the same alias. */
function Languages({ template: { id, alias } }: { readonly template: Template }) {
  const { data: found = [] } = useAll(read.templates.list({ alias, per_page: 100 }))
  return (
    <nav className="tabs languages" aria-label="Languages">
      {found
        .toSorted((a, b) => (a.locale ?? '').localeCompare(b.locale ?? ''))
        .map((other) => (
          <AppLink key={other.id} className="tab" to="/templates/$id" params={{ id: other.id }}>
            {other.locale ?? 'All languages'}
          </AppLink>
        ))}
      <ActionLink needs="developer" variant="subtle" to="/templates/new" search={{ from: id, as: 'language' }}>
        Add a language
      </ActionLink>
    </nav>
  )
}

function findObstacle({ dataProblem, source }: TemplateDraft): string | undefined {
  if (dataProblem) return 'The data is not valid JSON, so nothing is rendered.'
  return source ? undefined : 'Nothing is written yet.'
}

function SaveState({ draft: { base, isDirty } }: { readonly draft: TemplateDraft }) {
  return (
    <span role="status">
      {isDirty ? (
        <StatusLabel tone="warning">Not saved</StatusLabel>
      ) : (
        base && <StatusLabel tone="good">Saved as version {base.version}</StatusLabel>
      )}
    </span>
  )
}

interface FieldsProps {
  readonly draft: TemplateDraft
  readonly isReadOnly: boolean
  readonly rendering: Rendering
}

const NAMES: readonly Field<'name' | 'alias' | 'locale'>[] = [
  { name: 'name', label: 'Name', hint: 'For people: shown in lists.', isRequired: true },
  {
    name: 'alias',
    label: 'Alias',
    kind: 'code',
    hint: 'For programs: names the template in a send.',
    isRequired: true,
  },
  { name: 'locale', label: 'Language', kind: 'code', hint: 'Such as de or pt-BR. Empty: for all others.' },
]
const SUBJECT: Field<'subject'> = { name: 'subject', label: 'Subject', isRequired: true }

/** Name, alias, language and subject. The alias of a new template follows its name until it is typed. */
function Fields({ draft, isReadOnly, rendering }: FieldsProps) {
  const { base, fields, setField, save } = draft
  const [isAliasTyped, setIsAliasTyped] = useState(base !== undefined || fields.alias !== '')
  const subjectProblem = (rendering.result?.problems ?? NO_PROBLEMS).find(({ field }) => field === 'subject')
  const set = (name: 'name' | 'alias' | 'locale' | 'subject', text: string) => {
    setField(name, text)
    if (name === 'alias') setIsAliasTyped(true)
    if (name === 'name' && !isAliasTyped) setField('alias', toSlug(text, 100))
  }
  const show = (field: Field<'name' | 'alias' | 'locale' | 'subject'>) => (
    <FieldInput
      key={field.name}
      field={field}
      isFirst={false}
      value={fields[field.name]}
      error={
        findFieldError(save.error, field.name) ??
        (field === SUBJECT && subjectProblem ? toCodeProblem(subjectProblem).message : undefined)
      }
      isReadOnly={isReadOnly}
      set={(text) => set(field.name, String(text))}
    />
  )
  return (
    <Stack gap="sm">
      <SimpleGrid cols={{ base: 1, sm: 3 }} spacing="sm">
        {NAMES.map(show)}
      </SimpleGrid>
      {show(SUBJECT)}
    </Stack>
  )
}

interface SourcesProps extends FieldsProps {
  readonly tab: EditorTab
  onTab(tab: EditorTab): void
}

const TAB_LABELS: Readonly<Record<EditorTab, string>> = { html: 'HTML', text: 'Text', data: 'Test data' }

/** The sources of the bodies, and the data, each in a tab that says whether it has a problem. */
function Sources({ draft, rendering, isReadOnly, tab, onTab }: SourcesProps) {
  const { fields, setField, data, setData, dataProblem } = draft
  const problems = rendering.result?.problems ?? NO_PROBLEMS
  const byTab = useMemo(() => {
    const of = (name: RenderProblem['field']) => problems.filter(({ field }) => field === name).map(toCodeProblem)
    return { html: of('html_body'), text: of('text_body'), data: dataProblem ? [dataProblem] : of('template_data') }
  }, [problems, dataProblem])
  const panels = {
    html: (
      <CodeEditor
        label="HTML of the template"
        isLabelHidden
        language="html"
        value={fields.html_body}
        onChange={isReadOnly ? undefined : (text) => setField('html_body', text)}
        problems={byTab.html}
      />
    ),
    text: (
      <CodeEditor
        label="Text of the template"
        isLabelHidden
        language="text"
        value={fields.text_body}
        onChange={isReadOnly ? undefined : (text) => setField('text_body', text)}
        problems={byTab.text}
      />
    ),
    data: (
      <CodeEditor
        label="Test data"
        isLabelHidden
        description="JSON with values for the preview and test emails. It is saved with the template; sends bring their own."
        language="json"
        value={data}
        onChange={setData}
        problems={byTab.data}
      />
    ),
  }
  return (
    <Stack gap="xs" miw={0}>
      <Tabs
        label="Parts of the template"
        isKept
        value={tab}
        onChange={onTab}
        tabs={EDITOR_TABS.map((name) => ({
          name,
          label:
            byTab[name].length === 0 ? (
              TAB_LABELS[name]
            ) : (
              <StatusLabel tone="bad">
                {TAB_LABELS[name]}, {byTab[name].length === 1 ? '1 problem' : `${byTab[name].length} problems`}
              </StatusLabel>
            ),
          panel: panels[name],
        }))}
      />
      <MissingVariables problems={problems} data={data} onData={setData} />
    </Stack>
  )
}

interface MissingVariablesProps {
  readonly problems: readonly RenderProblem[]
  readonly data: string
  onData(data: string): void
}

function MissingVariables({ problems, data, onData }: MissingVariablesProps) {
  const names = new Set(problems.flatMap(({ variable }) => variable ?? []))
  const offers = [...names].flatMap((name) => {
    const next = addVariable(data, name)
    return next === undefined ? [] : [{ name, next }]
  })
  if (offers.length === 0) return null
  return (
    <Group gap="xs">
      {offers.map(({ name, next }) => (
        <Button key={name} size="compact-sm" variant="default" onClick={() => onData(next)}>
          Add <Code mx={4}>{name}</Code> to the test data
        </Button>
      ))}
    </Group>
  )
}

const VIEWS = { desktop: 'Desktop', phone: 'Phone', text: 'Text' } as const
type View = keyof typeof VIEWS
const VIEW_NAMES: readonly View[] = ['desktop', 'phone', 'text']

interface PreviewProps {
  readonly rendering: Rendering
  /** Why nothing can be rendered now. */
  readonly obstacle: string | undefined
}

/** What the template renders with the data, beside the source. */
function Preview({ rendering, obstacle }: PreviewProps) {
  const [view, setView] = useState<View>('desktop')
  return (
    <section aria-label="Preview" className="template-preview">
      <Tabs
        label="Preview as"
        value={view}
        onChange={setView}
        tabs={VIEW_NAMES.map((name) => ({
          name,
          label: VIEWS[name],
          panel: <Shown rendering={rendering} obstacle={obstacle} view={name} />,
        }))}
      />
    </section>
  )
}

function Shown({ rendering, obstacle, view }: PreviewProps & { readonly view: View }) {
  const { result, error, retry } = rendering
  return (
    <Stack gap="xs">
      {error !== undefined && (
        <>
          <FormError error={error} />
          <Group>
            <Button size="xs" variant="default" onClick={retry}>
              Try again
            </Button>
          </Group>
        </>
      )}
      {result && result.subject !== null && (
        <Text fw={600}>
          <bdi>{result.subject}</bdi>
        </Text>
      )}
      <Body rendering={rendering} view={view} />
      <Text size="xs" c="dimmed" role="status">
        {toStateText(rendering, obstacle)}
      </Text>
    </Stack>
  )
}

function toStateText({ result, isCurrent, error }: Rendering, obstacle: string | undefined): string {
  if (obstacle !== undefined) return obstacle
  if (error !== undefined) return 'The preview is not up to date.'
  if (!isCurrent || !result) return 'Rendering…'
  const count = result.problems.length
  if (count === 0) return 'Rendered with the test data.'
  return count === 1
    ? '1 problem: a send with this data is refused.'
    : `${count} problems: a send with this data is refused.`
}

function Body({ rendering: { result, lastShown }, view }: { readonly rendering: Rendering; readonly view: View }) {
  if (!result) return null
  if (view === 'text')
    return result.text_body === null ? (
      <Text size="sm">
        {hasProblem(result, 'text_body')
          ? 'The text has an error.'
          : 'Without a text of its own, the email gets one that is made from its HTML.'}
      </Text>
    ) : (
      <LongText label="Text of the preview" text={result.text_body} />
    )
  const isBroken = hasProblem(result, 'html_body') || hasProblem(result, 'template_data')
  const shown = result.preview_id !== null ? result : isBroken ? lastShown : undefined
  return (
    <>
      {isBroken && shown !== undefined && (
        <Notice tone="warning">The HTML has an error. Below it is as it was before.</Notice>
      )}
      {shown ? (
        <div className={view === 'phone' ? 'preview-phone' : undefined}>
          <MailFrame html={shown.html_body ?? ''} src={`/app/previews/${shown.preview_id}`} />
        </div>
      ) : (
        <Text size="sm">{isBroken ? 'The HTML has an error.' : 'The template has no HTML.'}</Text>
      )}
    </>
  )
}

const hasProblem = ({ problems }: NonNullable<Rendering['result']>, name: string): boolean =>
  problems.some(({ field }) => field === name)
