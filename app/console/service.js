// The service, asked with a key that is handed in with each call and kept nowhere here.

const [root, handle] = location.pathname.split("/console/turns/");

/** The turn that this page was opened for. */
export const HANDLE = handle;

/** What the service did not do, and why; without a status it did not answer. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || `The service answered with status ${status}.`);
    Object.assign(this, { status, code: problem.code || "", problem });
  }
}

/** Ask the service about turns; with a body, to do something. Raises `Refused`. */
export async function call(key, path, body) {
  const headers = { Authorization: `Bearer ${key}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(`${root}/v1/turns/${path}`, {
      method: body === undefined ? "GET" : "POST", headers, body, cache: "no-store", credentials: "omit",
      redirect: "error",
    });
  } catch {
    throw new Refused(0, { detail: "No answer came." });
  }
  const document_ = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, document_);
  return document_;
}
