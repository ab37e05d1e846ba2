/* SPDX-License-Identifier: Apache-2.0 */
/* The public header is C++ too: its functions link as C. */
#include "ogp/conv3d.h"

int main()
{
    ogp_problem problem = {};
    problem.size = sizeof problem;
    const ogp_pass pass = OGP_FORWARD;
    return ogp_problem_print(&problem, pass, nullptr, 0) > 0 && ogp_version() ? 0 : 1;
}
