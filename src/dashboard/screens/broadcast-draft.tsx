/** @module A broadcast in steps: list, content, test email, send. It is a draft once it has a list and content. */
import { Button, Group, Stack, Text, TextInput } from '@mantine/core'
import { getRouteApi } from '@tanstack/react-router'
import { useState } from 'react'
import type { Newsletter, NewsletterPreview } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useData } from '../api/data.ts'
import { useSession } from '../api/session.tsx'
import { DeleteButton } from '../parts/dialog.tsx'
import { FieldForm } from '../parts/field-form.tsx'
import { bindText, Form, FormError } from '../parts/form.tsx'
import { toTitle } from '../parts/format.ts'
import { AppLink, TextLink } from '../parts/links.tsx'
import { LongText } from '../parts/long-text.tsx'
import { MailFrame } from '../parts/mail-frame.tsx'
import { EmptyState, Facts, LoadingState, Page, QueryView, RecordPage, Section } from '../parts/page.tsx'
import { Tabs } from '../parts/tabs.tsx'
import { useTestEmail } from '../parts/test-email.tsx'
import { STEP_NAMES, STEPS, type Step } from './broadcasts/states.ts'
import { ContentForm, SendStep } from './broadcasts/steps.tsx'
import { useAllLists } from './queries.ts'

const route = getRouteApi('/broadcasts/drafts/$id')

export default function BroadcastDraftScreen() {
  const { id } = route.useParams()
  const query = useData(read.newsletters.get(id))
  const { data } = query
  return (
    <RecordPage
      title={data ? `Draft: ${toTitle(data.subject)}` : 'Draft'}
      list={{ to: '/broadcasts' }}
      listName="All broadcasts"
      query={query}
      action={data?.status === 'draft' && <DeleteDraft id={data.id} />}
      onEscape={() => undefined}
    >
      {(draft) => (draft.status === 'draft' ? <DraftView key={draft.id} draft={draft} /> : <Sent draft={draft} />)}
    </RecordPage>
  )
}

const DeleteDraft = ({ id }: Pick<Newsletter, 'id'>) => (
  <DeleteButton
    noun="draft"
    remove={() => api.newsletters.delete(id)}
    refreshes={[['newsletters', 'list']]}
    leadsTo={{ to: '/broadcasts' }}
  >
    Its text is lost. Test emails that were sent stay.
  </DeleteButton>
)

const Sent = ({ draft }: { readonly draft: Newsletter }) => (
  <Stack align="flex-start">
    <Text>This is no draft any more: it was sent or scheduled.</Text>
    {draft.operation_id !== null && (
      <TextLink to="/broadcasts/$id" params={{ id: draft.operation_id }} name="Show the broadcast" />
    )}
  </Stack>
)

function DraftView({ draft }: { readonly draft: Newsletter }) {
  const { step = 'content' } = route.useSearch()
  const navigate = route.useNavigate()
  const [contact, setContact] = useState('')
  const goTo = (next: Step) => void navigate({ search: { step: next } })
  return (
    <Stack gap="lg">
      <StepList current={step} draftId={draft.id} />
      {step === 'list' && <ListStep draft={draft} onDone={() => goTo('content')} />}
      {step === 'content' && (
        <div className="template-editor">
          <ContentForm
            key={draft.updated_at}
            listId={draft.list_id}
            draft={draft}
            onSaved={(_, goesOn) => goesOn && goTo('test')}
          />
          <Section title="Preview">
            <DraftPreview draft={draft} contact={contact} onContact={setContact} />
          </Section>
        </div>
      )}
      {step === 'test' && (
        <>
          <TestStep draft={draft} contact={contact} onDone={() => goTo('send')} />
          <Section title="Preview">
            <DraftPreview draft={draft} contact={contact} onContact={setContact} />
          </Section>
        </>
      )}
      {step === 'send' && <SendStep draft={draft} />}
    </Stack>
  )
}

const ListStep = ({ draft, onDone }: { readonly draft: Newsletter; onDone(): void }) => (
  <ChooseList initial={draft} run={({ list_id }) => api.newsletters.update(draft.id, { list_id })} onDone={onDone} />
)

interface TestStepProps {
  readonly draft: Newsletter
  readonly contact: string
  onDone(): void
}

function TestStep({ draft, contact, onDone }: TestStepProps) {
  const { user } = useSession()
  const test = useTestEmail(() =>
    api.newsletters.sendTestEmail(draft.id, contact === '' ? {} : { contact_email: contact }),
  )
  return (
    <Stack align="flex-start" gap="sm">
      <Text>
        Sends the email below to {user.email}, with [Test] before its subject. Its link to unsubscribe leads nowhere.
      </Text>
      <Group>
        {test.button}
        <Button variant={test.isSent ? 'filled' : 'default'} onClick={onDone}>
          Continue
        </Button>
      </Group>
      {test.outcome}
    </Stack>
  )
}

interface DraftPreviewProps {
  readonly draft: Newsletter
  /** Address of the contact for whom it is rendered; empty: the newest. */
  readonly contact: string
  onContact(contact: string): void
}

function DraftPreview({ draft, contact, onContact }: DraftPreviewProps) {
  const query = useData(read.newsletters.preview(draft.id, { contact_email: contact }), { retry: false })
  const [typed, setTyped] = useState(contact)
  const submit = () => {
    if (typed.trim() === contact) void query.refetch()
    else onContact(typed.trim())
  }
  return (
    <Stack gap="sm">
      <Form isRow onSubmit={submit}>
        <TextInput
          label="Shown as this contact gets it"
          description="Empty: the contact that was added last."
          inputWrapperOrder={['label', 'description', 'input']}
          placeholder="bob@example.com"
          inputMode="email"
          {...bindText(typed, setTyped)}
          flex="1 1 14rem"
          maw={420}
          autoComplete="off"
          spellCheck={false}
        />
        <Button type="submit" variant="default">
          Show
        </Button>
      </Form>
      {query.error ? (
        <FormError error={query.error} />
      ) : query.data ? (
        <Rendered draft={draft} contact={contact} preview={query.data} />
      ) : (
        <LoadingState rows={4} />
      )}
    </Stack>
  )
}

interface RenderedProps extends Pick<DraftPreviewProps, 'draft' | 'contact'> {
  readonly preview: NewsletterPreview
}

function Rendered({ draft, contact, preview }: RenderedProps) {
  const [view, setView] = useState<'html' | 'text'>('html')
  const { html_body: html, text_body: text, subject, contact_email: email } = preview
  const src = `/app/newsletters/${encodeURIComponent(draft.id)}/html${contact === '' ? '' : `?contact_email=${encodeURIComponent(contact)}`}`
  const shown = {
    html: html !== null && <MailFrame key={`${draft.updated_at} ${contact}`} html={html} src={src} />,
    text: text !== null && <LongText label="Text of the email" text={text} />,
  }
  return (
    <Stack gap="sm" data-preview="">
      <Facts
        facts={[
          ['From', draft.from_address],
          ['To', email ?? 'contact@example.com, who is made up: the list has no subscribed contact'],
          ['Subject', subject],
        ]}
      />
      {html === null || text === null ? (
        shown.html || shown.text || <Text>It has no content yet.</Text>
      ) : (
        <Tabs
          label="Content"
          value={view}
          onChange={setView}
          tabs={[
            { name: 'html', label: 'HTML', panel: shown.html },
            { name: 'text', label: 'Text', panel: shown.text },
          ]}
        />
      )}
    </Stack>
  )
}

const newRoute = getRouteApi('/broadcasts/new')

export function BroadcastNewScreen() {
  const { list } = newRoute.useSearch()
  const navigate = newRoute.useNavigate()
  return (
    <Page title="Create a broadcast" back={{ label: 'All broadcasts', target: { to: '/broadcasts' } }}>
      <StepList current={list === undefined ? 'list' : 'content'} />
      {list === undefined ? (
        <ChooseList run={({ list_id: chosen }) => navigate({ search: { list: chosen } })} />
      ) : (
        <NewContent listId={list} />
      )}
    </Page>
  )
}

function NewContent({ listId }: { readonly listId: string }) {
  const query = useData(read.contactLists.get(listId))
  const navigate = newRoute.useNavigate()
  return (
    <QueryView query={query}>
      {({ id, name }) => (
        <>
          <Group gap="xs">
            <Text size="sm">
              To the list <bdi>{name}</bdi>.
            </Text>
            <TextLink to="/broadcasts/new" search={{}} name="Choose another" />
          </Group>
          <ContentForm
            listId={id}
            onSaved={(draft, goesOn) =>
              void navigate({
                to: '/broadcasts/drafts/$id',
                params: { id: draft.id },
                search: { step: goesOn ? 'test' : 'content' },
                replace: true,
              })
            }
          />
        </>
      )}
    </QueryView>
  )
}

type Choice = Pick<Newsletter, 'list_id'>

interface ChooseListProps {
  readonly initial?: Choice
  run(choice: Choice): Promise<unknown>
  onDone?(): void
}

const ChooseList = ({ initial, run, onDone }: ChooseListProps) => (
  <QueryView query={useAllLists()}>
    {(lists) =>
      lists.length === 0 ? (
        <EmptyState title="A broadcast goes to a contact list">
          <Text>There is no list yet.</Text>
          <TextLink to="/audience">Create the first one</TextLink>
        </EmptyState>
      ) : (
        <FieldForm
          maw={480}
          needs="developer"
          label="Continue"
          fields={[
            {
              name: 'list_id',
              label: 'List',
              kind: 'choice',
              hint: 'Its subscribed contacts get the broadcast.',
              options: [
                { value: '', label: 'Choose a list' },
                ...lists.map(({ id, name, contact_count: count }) => ({
                  value: id,
                  label: `${name} (${count.toLocaleString()} contacts)`,
                })),
              ],
              isRequired: true,
            },
          ]}
          {...(initial && { initial })}
          refreshes={['newsletters']}
          run={run}
          {...(onDone && { onDone })}
        />
      )
    }
  </QueryView>
)

/** @param draftId undefined: only the first steps exist, and they are not links */
const StepList = ({ current, draftId }: { readonly current: Step; readonly draftId?: string }) => (
  <nav aria-label="Steps">
    <ol className="tabs plain-list">
      {STEPS.map((step, index) => (
        <li key={step}>
          {draftId === undefined || step === current ? (
            <span className="tab" {...(step === current && { 'aria-current': 'step' as const })}>
              {index + 1}. {STEP_NAMES[step]}
            </span>
          ) : (
            <AppLink to="/broadcasts/drafts/$id" params={{ id: draftId }} search={{ step }} className="tab">
              {index + 1}. {STEP_NAMES[step]}
            </AppLink>
          )}
        </li>
      ))}
    </ol>
  </nav>
)
