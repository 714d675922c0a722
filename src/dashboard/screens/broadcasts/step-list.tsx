/** @module The steps of a broadcast, as links once it is stored. */
import { TextLink } from '../../parts/links.tsx'
import { STEP_NAMES, STEPS, type Step } from './steps.ts'

/** @param draftId undefined: only the first steps exist, and they are not links */
export const StepList = ({ current, draftId }: { readonly current: Step; readonly draftId?: string }) => (
  <nav aria-label="Steps">
    <ol className="steps">
      {STEPS.map((step, index) => (
        <li key={step} {...(step === current && { 'aria-current': 'step' as const })}>
          <span>{index + 1}.</span>
          {draftId === undefined || step === current ? (
            <span>{STEP_NAMES[step]}</span>
          ) : (
            <TextLink to="/broadcasts/drafts/$id" params={{ id: draftId }} search={{ step }}>
              {STEP_NAMES[step]}
            </TextLink>
          )}
        </li>
      ))}
    </ol>
  </nav>
)
